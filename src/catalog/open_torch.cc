#include "catalog/open_torch.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>

#include "base/checked.h"
#include "catalog/build.h"
#include "catalog/item_source.h"
#include "catalog/state_dict.h"
#include "format/item_archive.h"
#include "pickle/graph_write.h"
#include "pickle/writer.h"

namespace dcp {
namespace {

using Means = TorchGlobal::Kind;
// What TorchFile::values holds of an empty mapping, whatever its class.
constexpr Value kEmptyDict{};
static_assert(kEmptyDict.kind == Kind::kUnset);

// Archives that torch writes and that are no torch.save files.
void refuse_other_archives(const ZipDirectory& directory, const Place& place) {
  Problem p = make_problem(ProblemId::not_checkpoint, place, {}, "a torch.save file");
  if (directory.find("constants.pkl") != nullptr) {
    p.got = "a TorchScript archive";
    p.hint = "save its state dict: torch.save(torch.jit.load(FILE).state_dict(), NEW)";
  } else if (directory.find("archive_format") != nullptr) {
    p.got = "a torch.export program";
    p.hint = "save its state dict: torch.save(torch.export.load(FILE).state_dict, NEW)";
  } else if (directory.find("data.pkl") == nullptr) {
    p.got = "a zip archive without data.pkl";
  } else {
    return;
  }
  throw Error(std::move(p));
}

uint64_t pickle_memory(uint64_t pickle_bytes) { return pickle_bytes + kMiB; }  // and the windows that it is read through

// Of one leaf of the state dict while it is read and listed, its key and path apart. Measured: 920 for tensors that share one storage.
constexpr uint64_t kLeafBytes = 1000;

[[noreturn]] void fail_memory(const Place& place, uint64_t cap, uint64_t needed, std::string what) {
  Problem p = make_problem(ProblemId::memory_cap, place, std::to_string(cap / kMiB) + " MiB",
                           std::to_string(needed / kMiB + 1) + " MiB or more for " + what);
  p.hint = "give --max-memory " + std::to_string(3 * (needed / kMiB) + 64) + "MiB";
  throw Error(std::move(p));
}

void check_fits(const ZipDirectory& directory, const Place& place, const Limits& limits) {
  const uint64_t bytes = directory.find("data.pkl")->size;
  if (pickle_memory(bytes) > limits.memory_bytes)
    fail_memory(place, limits.memory_bytes, pickle_memory(bytes), "the pickle of its state dict");
}

BlobItem read_archive(ItemSource& source, const Place& place, const Limits& limits) {
  try {
    const ZipDirectory directory = read_zip_directory(source, place, limits);
    refuse_other_archives(directory, place);
    check_fits(directory, place, limits);
  } catch (const Error& e) {
    if (e.problem().id != ProblemId::zip_no_end) throw;
    Problem p = e.problem();
    p.hint = "the file was cut short: restore it from the writer's copy";
    throw Error(std::move(p));
  }
  const ItemArchive archive = open_item_archive(source, place, limits);
  return read_blob_item(source, archive, limits.archive_pickle_bytes, limits, place);
}

class TorchReader {
 public:
  TorchReader(TorchFile& file, const std::string& name, const Limits& limits)
      : file_(file), name_(name), place_(file.archive.pickle_place), limits_(limits) {
    file.storages = by_key(file.archive);
    for (const BlobItem::Storage& s : file.archive.storages) storage_bytes_ += s.bytes;
  }

  // Views the graph's pickle and `state`.
  MetadataContent read(StateDict& state) {
    MetadataContent out;
    out.files.push_back(name_);
    out.transforms.emplace_back();
    out.has_planner_data = true;
    file_.strides.push_back(0);
    const TensorReader reader(file_.graph->machine(), state.names(), limits_, place_);
    uint64_t held = pickle_memory(file_.archive.pickle.size()) + file_.graph->memory_bytes();
    state.flatten([&](const StateDict::Leaf& leaf) {
      held += kLeafBytes + 2 * leaf.key.size();
      if (held > limits_.memory_bytes) fail_memory({.path = place_.path}, limits_.memory_bytes, held, "its state dict");
      out.paths.push_back({.key = leaf.key, .first = out.path_elements.size(), .count = narrow<uint32_t>(leaf.path.size())});
      out.path_elements.insert(out.path_elements.end(), leaf.path.begin(), leaf.path.end());
      if (is_one_ranks(leaf.tensor.cls)) refuse_rank_part(leaf);
      if (leaf.tensor.kind == Means::kOther && !leaf.tensor.opaque) blob(out, leaf);
      else tensor(out, reader, state, leaf);
    });
    // Item numbers: tensors first, since each has one chunk, then byte items.
    file_.values.insert(file_.values.end(), blobs_.begin(), blobs_.end());
    file_.odd_keys = state.odd_keys();
    count_unreferenced();
    return out;
  }

 private:
  void blob(MetadataContent& out, const StateDict::Leaf& leaf) {
    out.order.push_back(KeyRef::blob_at(out.blobs.size()));
    out.blobs.push_back(leaf.key);
    out.storage.push_back({.key = leaf.key, .offset = *place_.offset, .length = file_.archive.packed_pickle});
    blobs_.push_back(leaf.empty_mapping ? kEmptyDict : leaf.value);
  }

  // verl, FSDP with torch.save: model_world_size_8_rank_0.pt and the like.
  [[noreturn]] void refuse_rank_part(const StateDict::Leaf& leaf) const {
    Problem p = make_problem(ProblemId::torch_rank_part, {.path = place_.path, .tensor = std::string(leaf.key)}, leaf.tensor.cls);
    if (name_.find("_world_size_") != std::string::npos)
      p.hint = "verl merges the files of all ranks: python -m verl.model_merger merge --backend fsdp --local_dir FOLDER --target_dir OUT";
    throw Error(std::move(p));
  }

  // A class may call torch's functions with what suits only itself.
  static bool describe(const TensorReader& reader, const TensorCall& call, TensorItem& t) {
    try {
      return reader.read_opaque(call.kind, call.arguments, t);
    } catch (const Error&) {
      if (call.kind == Means::kQuantized) throw;
      t = {};
      return false;
    }
  }

  // What the bytes of an opaque tensor mean is its class's. One that only a .pt can hold has no strides to lay it out by.
  std::string_view dtype_name(const StateDict::Leaf& leaf, const TensorItem& t, bool described, StateDict& state, bool& strided) const {
    const std::string_view dtype = facts_of(t.dtype).name;
    strided = described && leaf.tensor.kind != Means::kSparse && leaf.tensor.kind != Means::kMeta;
    if (described && leaf.tensor.kind == Means::kMeta) return state.keep(std::string(dtype) + " on meta");
    return described ? dtype : state.keep(leaf.tensor.cls);
  }

  void tensor(MetadataContent& out, const TensorReader& reader, StateDict& state, const StateDict::Leaf& leaf) {
    TensorItem t;
    bool described = true;
    TorchStorage storage;
    ItemInfo info{.resolved = true};
    uint64_t length = file_.archive.packed_pickle;
    uint64_t offset = *place_.offset;
    uint32_t transforms = 0;
    try {
      if (leaf.tensor.opaque) {
        described = describe(reader, leaf.tensor, t);
        info.opaque = true;
      } else {
        storage = reader.read(leaf.tensor.kind, leaf.tensor.arguments, t);
        const BlobItem::Storage& record = record_of(storage);
        offset = record.payload;
        length = record.packed != 0 ? record.packed : record.bytes;
        if (record.packed != 0) transforms = Item::kDeflated, count_decoded(leaf.key, record);
        info.record = record.payload;
        info.record_bytes = record.bytes;
        info.crc = record.crc;
        info.has_crc = record.has_crc;
      }
    } catch (const Error& e) {  // many tensors are in one pickle: say which
      Problem p = e.problem();
      p.place.tensor = leaf.key;
      throw Error(std::move(p));
    }
    info.dtype = t.dtype;
    info.swap = file_.archive.big_endian && swap_unit(t.dtype) > 1;
    info.conj = t.conj;
    info.neg = t.neg;
    if (!info.opaque && !is_dense(t)) {
      info.strides_at = file_.strides.size();
      file_.strides.push_back(narrow<int64_t>(t.storage_offset));
      file_.strides.insert(file_.strides.end(), t.strides.begin(), t.strides.end());
    }
    file_.infos.push_back(info);
    file_.values.push_back(leaf.value);
    add(out, leaf, t, {.key = leaf.key, .has_offset = true, .offset = offset, .length = length, .transforms = transforms});
    MetadataContent::Tensor& added = out.tensors.back();
    if (leaf.tensor.opaque) added.dtype_name = dtype_name(leaf, t, described, state, added.strided);
  }

  // A deflated storage is decoded for each tensor that lies in it: a file of megabytes must not cost years.
  void count_decoded(std::string_view key, const BlobItem::Storage& record) {
    decoded_ += record.bytes;
    if (decoded_ / 16 <= limits_.decoded_again / 16 + storage_bytes_) return;
    Place place = place_;
    place.offset.reset();
    place.tensor = key;
    Problem p =
        make_problem(ProblemId::over_limit, place, "many tensors in compressed storages: " + std::to_string(decoded_) + " bytes to decode");
    p.hint = "save it anew without compression: torch.save(torch.load(FILE), NEW)";
    throw Error(std::move(p));
  }

  void add(MetadataContent& out, const StateDict::Leaf& leaf, const TensorItem& t, MetadataContent::Storage item) {
    const auto rank = narrow<uint32_t>(t.sizes.size());
    const uint64_t zeros = out.ints.size();
    out.ints.insert(out.ints.end(), rank, 0);
    const uint64_t sizes = out.ints.size();
    out.ints.insert(out.ints.end(), t.sizes.begin(), t.sizes.end());
    out.order.push_back(KeyRef::tensor_at(out.tensors.size()));
    out.tensors.push_back({.key = leaf.key,
                           .dtype = t.dtype,
                           .dtype_name = facts_of(t.dtype).name,
                           .requires_grad = leaf.tensor.requires_grad,
                           .rank = rank,
                           .dims_at = sizes,
                           .first_chunk = out.chunks.size(),
                           .chunk_count = 1});
    out.chunks.push_back({.offsets_at = zeros, .sizes_at = sizes});
    item.rank = static_cast<uint16_t>(rank);
    item.offsets_at = zeros;
    out.storage.push_back(item);
  }

  const BlobItem::Storage& record_of(const TorchStorage& storage) const {
    const auto found = file_.storages.find(storage.key);
    Place place = place_;
    if (found == file_.storages.end()) {
      place.offset.reset();
      place.member = "data/" + storage.key;
      fail(ProblemId::item_no_record, place);
    }
    check_record(storage, found->second->bytes, found->second->payload - *place_.offset, place);
    return *found->second;
  }

  void count_unreferenced() {
    std::unordered_set<std::string_view> named;
    const PickleMachine& m = file_.graph->machine();
    file_.graph->visit([&](const Value& v) {
      if (!file_.graph->is_persistent(v)) return;
      const Value id = m.arguments_of(v);
      if (id.kind == Kind::kTuple && id.n > 2 && m.element(id, 2).kind == Kind::kText) named.insert(m.text(m.element(id, 2)));
    });
    for (const BlobItem::Storage& s : file_.archive.storages)
      if (!named.contains(s.key)) file_.unreferenced_bytes += s.bytes;
  }

  TorchFile& file_;
  const std::string& name_;
  const Place& place_;
  const Limits& limits_;
  uint64_t storage_bytes_ = 0;
  uint64_t decoded_ = 0;  // bytes that deflated storages are decoded to, once for each tensor
  std::vector<Value> blobs_;
};

}  // namespace

uint64_t TorchFile::memory_bytes() const {
  uint64_t bytes = archive.pickle.capacity() + archive.storages.capacity() * sizeof(BlobItem::Storage) + graph->memory_bytes() +
                   values.capacity() * sizeof(Value) + infos.capacity() * sizeof(ItemInfo) + strides.capacity() * sizeof(int64_t);
  for (const BlobItem::Storage& s : archive.storages) bytes += s.key.capacity();
  return bytes;
}

Catalog open_torch_file(Io& io, const std::string& path, const OpenOptions& options) {
  const std::filesystem::path full(path);
  const Place place{.path = path};
  auto handle = std::make_shared<const OpenFile>(io, io.open_read(path));
  const uint64_t bytes = io.facts(handle->get()).bytes;
  SliceSource source(io, std::move(handle), bytes);
  source.go_to(0, bytes, bytes);
  auto file = std::make_shared<TorchFile>();
  file->archive = read_archive(source, place, options.limits);
  Limits left = options.limits;
  left.memory_bytes -= std::min(left.memory_bytes, pickle_memory(file->archive.pickle.size()));
  file->graph = std::make_unique<PickleGraph>(file->archive.pickle, file->archive.pickle_place, left);
  StateDict state(*file->graph, file->archive.pickle_place, options.limits);
  const std::string name = full.filename();
  const MetadataContent content = TorchReader(*file, name, options.limits).read(state);
  Catalog catalog = build_catalog(content, path, full.parent_path().empty() ? "." : full.parent_path().string(), CheckpointKind::kTorch);
  catalog.provenance = {};
  catalog.single_file = true;
  catalog.files[0].raw = true;
  if (const auto& bad = file->graph->machine().bad_text())
    catalog.unloadable.push_back(make_problem(ProblemId::pickle_unloadable, bad->place, bad->got, "UTF-8"));
  catalog.torch = std::move(file);
  return catalog;
}

BlobItem blob_of(const TorchFile& file, ItemId item, const Place& place, const Limits& limits) {
  if (file.values[item].kind == kEmptyDict.kind) {
    std::string pickle;
    PickleWriter writer(pickle, PickleProtocol::k2);
    writer.begin();
    writer.op(Op::EMPTY_DICT);
    writer.end();
    const Bytes bytes = as_bytes(pickle);
    return {.pickle = {bytes.begin(), bytes.end()}, .pickle_place = place, .storages = {}};
  }
  WrittenValue written = write_value(*file.graph, file.values[item], place, limits.blob_bytes);
  const Bytes pickle = as_bytes(written.pickle);
  BlobItem blob{.pickle = {pickle.begin(), pickle.end()},
                .pickle_place = file.archive.pickle_place,
                .storages = {},
                .big_endian = file.archive.big_endian};
  // The pickle is not the file's: its offsets mean nothing there.
  blob.pickle_place.offset.reset();
  blob.pickle_place.tensor = place.tensor;
  for (const std::string& key : written.storage_keys)
    if (const auto found = file.storages.find(key); found != file.storages.end()) blob.storages.push_back(*found->second);
  std::ranges::sort(blob.storages, {}, &BlobItem::Storage::payload);
  return blob;
}

}  // namespace dcp
