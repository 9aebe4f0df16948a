#include "inputs/torch_file.h"

#include <algorithm>
#include <set>

#include "base/checked.h"
#include "base/text.h"
#include "catalog/build.h"
#include "catalog/cover.h"
#include "catalog/torch_files.h"
#include "format/item_archive.h"
#include "format/legacy_torch.h"
#include "inputs/input.h"
#include "inputs/refuse.h"
#include "inputs/torch_ranks.h"
#include "items/bare_pickle.h"
#include "items/item_source.h"
#include "pickle/weights_only.h"

namespace dcp {
namespace {

using Means = TorchGlobal::Kind;

// Refuses archives that torch writes but that are not torch.save files.
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

uint64_t pickle_memory(uint64_t pickle_bytes) { return pickle_bytes + kMiB; }  // plus the windows for reading it

// Memory for one leaf of the state dict while it is read and listed, without its key and path. Measured: 920 for tensors that share one
// storage.
constexpr uint64_t kLeafBytes = 1000;

[[noreturn]] void fail_memory(const Place& place, uint64_t cap, uint64_t needed, std::string what) {
  throw Error(with_remedy(make_problem(ProblemId::memory_cap, place, std::to_string(cap / kMiB) + " MiB",
                                       std::to_string(needed / kMiB + 1) + " MiB or more for " + what),
                          Remedy::kMoreMemory, (3 * (needed / kMiB) + 64) * kMiB));
}

void check_fits(const ZipDirectory& directory, const Place& place, const Limits& limits) {
  const uint64_t bytes = directory.find("data.pkl")->size;
  if (pickle_memory(bytes) > limits.memory_bytes)
    fail_memory(place, limits.memory_bytes, pickle_memory(bytes), "the pickle of its state dict");
}

BlobItem read_archive(ItemSource& source, const Place& place, const Limits& limits, ZipDirectory& directory) {
  try {
    directory = read_zip_directory(source, place, limits);
    refuse_other_archives(directory, place);
    check_fits(directory, place, limits);
  } catch (const Error& e) {
    if (e.problem().id != ProblemId::zip_no_end) throw;
    Problem p = e.problem();
    p.hint = "the file was cut short: restore it from the original";
    throw Error(std::move(p));
  }
  const ItemArchive archive = open_item_archive(source, place, limits);
  // Nothing uses these, though torch reads the second; but a wrong CRC in them shows damage.
  for (const std::string_view name : {".format_version", ".data/serialization_id"})
    if (const ZipRecord* r = archive.directory.find(name))
      check_record_crc(source, *r, payload_of(source, archive.directory, *r, place), place);
  return read_blob_item(source, archive, limits.archive_pickle_bytes, limits, place);
}

class TorchReader {
 public:
  TorchReader(TorchFile& file, const NamedState& of, const PartOf& part_of, TorchFacts& facts, const Limits& limits)
      : file_(file),
        of_(of),
        state_(of.state),
        part_of_(part_of),
        facts_(facts),
        place_(file.archive.pickle_place),
        limits_(limits),
        reader_(file.graph->machine(), of.state.names(), limits_, place_) {
    for (const BlobItem::Storage& s : file.archive.storages) storage_bytes_ += s.bytes;
  }

  MetadataContent read() {
    MetadataContent& out = out_;
    out.files.push_back(of_.name);
    out.transforms.emplace_back();
    out.has_planner_data = true;
    uint64_t held = pickle_memory(file_.archive.pickle.size()) + file_.graph->memory_bytes();
    state_.flatten([&](const StateDict::Leaf& leaf) {
      if (of_.is_left_out && of_.is_left_out(leaf.key)) return;
      held += kLeafBytes + 2 * leaf.key.size();
      if (held > limits_.memory_bytes) fail_memory({.path = place_.path}, limits_.memory_bytes, held, "its state dict");
      out.paths.push_back({.key = leaf.key, .first = out.path_elements.size(), .count = narrow<uint32_t>(leaf.path.size())});
      out.path_elements.insert(out.path_elements.end(), leaf.path.begin(), leaf.path.end());
      add(leaf);
    });
    file_.odd_keys = state_.odd_keys();
    if (auto twice = state_.keys_twice()) facts_.findings.push_back(std::move(*twice));
    return std::move(out_);
  }

 private:
  void blob(const StateDict::Leaf& leaf) {
    check_storages(leaf.value);
    MetadataContent& out = out_;
    out.order.push_back(KeyRef::blob_at(out.blobs.size()));
    out.blobs.push_back(leaf.key);
    out.storage.push_back({.key = leaf.key,
                           .offset = *place_.offset,
                           .length = file_.archive.packed_pickle,
                           .value = add_value({.value = leaf.empty_mapping ? Value{} : leaf.value, .info = {}})});
  }

  void add(const StateDict::Leaf& leaf) {
    const bool is_blob = leaf.tensor.kind == Means::kOther && !leaf.tensor.opaque;
    try {
      if (is_blob) return blob(leaf);
      if (const std::optional<TensorPart> part = part_of_(leaf)) return this->part(leaf, *part);
      whole(leaf);
    } catch (const Error& e) {  // many values are in one pickle, so say which
      Problem p = e.problem();
      if (p.place.tensor.empty()) p.place.tensor = leaf.key, p.place.object = is_blob;
      throw Error(std::move(p));
    }
  }

  // A class may call torch's functions with arguments that only it understands.
  static bool describe(const TensorReader& reader, const TensorCall& call, TensorItem& t) {
    try {
      return reader.read_opaque(call.kind, call.arguments, t);
    } catch (const Error&) {
      if (call.kind == Means::kQuantized) throw;
      t = {};
      return false;
    }
  }

  // Only its class knows what the bytes of an opaque tensor mean. One that only a .pt can hold has no strides by which to lay it out.
  std::string_view dtype_name(const StateDict::Leaf& leaf, const TensorItem& t, bool described, bool& strided) const {
    const std::string_view dtype = facts_of(t.dtype).name;
    strided = described && leaf.tensor.kind != Means::kSparse && leaf.tensor.kind != Means::kMeta;
    if (described && leaf.tensor.kind == Means::kMeta) return state_.keep(std::string(dtype) + " on meta");
    return described ? dtype : state_.keep(leaf.tensor.cls);
  }

  // Where the bytes of a tensor are in the file, and its facts as a tensor.
  struct Read {
    TensorItem tensor;
    ItemInfo info{.resolved = true};
    uint64_t offset = 0, length = 0;
    uint32_t transforms = 0;
  };

  Read plain(std::string_view key, const TensorCall& call) {
    Read r;
    const TorchStorage storage = reader_.read(call.kind, call.arguments, r.tensor);
    const BlobItem::Storage& record = record_of(storage);
    r.offset = record.payload;
    r.length = record.packed != 0 ? record.packed : record.bytes;
    if (record.packed != 0) r.transforms = Item::kDeflated, count_decoded(key, record);
    r.info.record = record.payload;
    r.info.record_bytes = record.bytes;
    r.info.crc = record.crc;
    r.info.has_crc = record.has_crc;
    r.info.dtype = r.tensor.dtype;
    r.info.swap = file_.archive.big_endian && swap_unit(r.tensor.dtype) > 1;
    r.info.conj = r.tensor.conj;
    r.info.neg = r.tensor.neg;
    return r;
  }

  void whole(const StateDict::Leaf& leaf) {
    if (leaf.tensor.opaque) return opaque(leaf);
    Read r = plain(leaf.key, leaf.tensor);
    if (!is_dense(r.tensor)) add_strides(r.info, r.tensor, static_cast<int64_t>(r.tensor.storage_offset));
    const std::vector<int64_t> zeros(r.tensor.sizes.size(), 0);
    add_tensor(leaf, r.tensor, r.tensor.sizes);
    add_chunk(leaf, r, {.offsets = zeros, .sizes = r.tensor.sizes, .local_offsets = {}}, leaf.value);
  }

  void opaque(const StateDict::Leaf& leaf) {
    check_storages(leaf.value);
    Read r{.offset = *place_.offset, .length = file_.archive.packed_pickle};
    const bool described = describe(reader_, leaf.tensor, r.tensor);
    r.info.opaque = true;
    r.info.dtype = r.tensor.dtype;
    add_tensor(leaf, r.tensor, r.tensor.sizes);
    MetadataContent::Tensor& added = out_.tensors.back();
    added.dtype_name = dtype_name(leaf, r.tensor, described, added.strided);
    const std::vector<int64_t> zeros(r.tensor.sizes.size(), 0);
    add_chunk(leaf, r, {.offsets = zeros, .sizes = r.tensor.sizes, .local_offsets = {}}, leaf.value);
  }

  // Adds the boxes of the tensor in this rank's part of it, as chunks that share its record.
  void part(const StateDict::Leaf& leaf, const TensorPart& part) {
    if (part.local.kind == Kind::kUnset) return;  // other ranks say what the tensor is
    const TensorCall call = state_.tensor_call(part.local);
    if (call.kind == Means::kOther || call.opaque)
      fail(ProblemId::torch_rank_part, {.path = place_.path}, "a part that is not a plain tensor");
    const Read r = plain(leaf.key, call);
    if (!part.boxes.empty() && r.tensor.sizes != part.local_sizes) {
      const std::vector<int64_t> zeros(r.tensor.sizes.size(), 0), none(part.local_sizes.size(), 0);
      fail(ProblemId::chunk_shape_differs, {.path = place_.path}, slice_text(zeros, r.tensor.sizes), slice_text(none, part.local_sizes));
    }
    add_tensor(leaf, r.tensor, part.sizes);
    for (const TensorPart::Box& box : part.boxes) {
      Read piece = r;
      auto first = static_cast<int64_t>(r.tensor.storage_offset);
      for (size_t d = 0; d < box.local_offsets.size(); ++d) first += box.local_offsets[d] * r.tensor.strides[d];
      if (!is_dense(r.tensor) || box.sizes != r.tensor.sizes) add_strides(piece.info, r.tensor, first);
      add_chunk(leaf, piece, box, leaf.value);
    }
  }

  void add_strides(ItemInfo& info, const TensorItem& t, int64_t first) {
    std::vector<int64_t>& strides = facts_.strides;
    info.strides_at = strides.size();
    strides.push_back(first);
    strides.insert(strides.end(), t.strides.begin(), t.strides.end());
  }

  // A deflated storage is decoded for each tensor in it, and a file of megabytes must not take years.
  void count_decoded(std::string_view key, const BlobItem::Storage& record) {
    decoded_ += record.bytes;
    if (decoded_ / 16 <= limits_.decoded_again / 16 + storage_bytes_) return;
    Place place = place_;
    place.offset.reset();
    place.tensor = key;
    throw Error(with_hint(
        make_problem(ProblemId::over_limit, place, "many tensors in compressed storages: " + std::to_string(decoded_) + " bytes to decode"),
        "save it again without compression: torch.save(torch.load(FILE), NEW)"));
  }

  uint64_t add_numbers(const std::vector<int64_t>& numbers) {
    std::vector<int64_t>& ints = out_.ints;
    ints.insert(ints.end(), numbers.begin(), numbers.end());
    return ints.size() - numbers.size();
  }

  void add_tensor(const StateDict::Leaf& leaf, const TensorItem& t, const std::vector<int64_t>& sizes) {
    MetadataContent& out = out_;
    out.order.push_back(KeyRef::tensor_at(out.tensors.size()));
    out.tensors.push_back({.key = leaf.key,
                           .dtype = t.dtype,
                           .dtype_name = facts_of(t.dtype).name,
                           .requires_grad = leaf.tensor.requires_grad,
                           .rank = narrow<uint32_t>(sizes.size()),
                           .dims_at = add_numbers(sizes),
                           .first_chunk = out.chunks.size()});
  }

  void add_chunk(const StateDict::Leaf& leaf, const Read& r, const TensorPart::Box& box, const Value& value) {
    MetadataContent& out = out_;
    const uint64_t offsets = add_numbers(box.offsets);
    out.chunks.push_back({.offsets_at = offsets, .sizes_at = add_numbers(box.sizes)});
    out.tensors.back().chunk_count += 1;
    out.storage.push_back({.key = leaf.key,
                           .has_offset = true,
                           .rank = static_cast<uint16_t>(out.tensors.back().rank),
                           .offsets_at = offsets,
                           .offset = r.offset,
                           .length = r.length,
                           .transforms = r.transforms,
                           .value = add_value({.value = value, .info = r.info})});
  }

  uint32_t add_value(TorchValue value) {
    facts_.values.push_back(value);
    return narrow<uint32_t>(facts_.values.size() - 1);
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

  // Checks all storages that a value names. Those that several leaves share are checked for the first one.
  void check_storages(const Value& value) {
    if (!value.in_arena()) return;
    const PickleMachine& m = reader_.machine();
    file_.graph->visit(value, seen_, [&](const Value& v) {
      if (v.kind == Kind::kObject) reader_.check_inside(reader_.call_of(v), m.arguments_of(v));
      if (!file_.graph->is_persistent(v)) return;
      const Value id = m.arguments_of(v);
      if (reader_.names_storage(id)) record_of(reader_.storage(id));
    });
  }

  TorchFile& file_;
  const NamedState& of_;
  StateDict& state_;
  const PartOf& part_of_;
  TorchFacts& facts_;
  const Place& place_;
  const Limits& limits_;
  const TensorReader reader_;
  MetadataContent out_;
  std::vector<bool> seen_;  // by check_storages
  uint64_t storage_bytes_ = 0;
  uint64_t decoded_ = 0;  // bytes that deflated storages are decoded to, once for each tensor
};

std::set<std::string, std::less<>> named_storages(const PickleGraph& graph) {
  std::set<std::string, std::less<>> named;
  const PickleMachine& m = graph.machine();
  graph.visit([&](const Value& v) {
    if (!graph.is_persistent(v)) return;
    const Value id = m.arguments_of(v);
    if (id.kind == Kind::kTuple && id.n > 2 && m.element(id, 2).kind == Kind::kText) named.emplace(m.text(m.element(id, 2)));
  });
  return named;
}

// Counts the bytes of storages that no tensor names. Returns the named ones.
std::set<std::string, std::less<>> note_unreferenced(TorchFile& file) {
  std::set<std::string, std::less<>> named = named_storages(*file.graph);
  for (const BlobItem::Storage& s : file.archive.storages)
    if (!named.contains(s.key)) file.unreferenced_bytes += s.bytes;
  return named;
}

// Refuses a name that is one of torch's but for a byte: in a file without CRCs, a flipped bit would make objects of tensors.
void check_names(const TorchFile& file) {
  for (const auto& [module, name] : file.graph->globals()) {
    const std::string global = std::string(module) + "." + std::string(name);
    if (const auto known = misspelt(global); !known.empty())
      fail(ProblemId::pickle_unloadable, file.archive.pickle_place, global, std::string(known));
  }
}

}  // namespace

std::unique_ptr<TorchFile> read_torch_file(Store& store, OpenFile handle, const std::string& path, const Limits& limits) {
  const auto opened = std::make_shared<const OpenFile>(std::move(handle));
  const uint64_t bytes = store.facts(opened->get()).bytes;
  SliceSource source(store, opened, bytes);
  source.go_to(0, bytes, bytes);
  auto file = std::make_unique<TorchFile>();
  if (begins_legacy_torch(source.at(0, std::min(bytes, kLegacyBeginBytes)))) {
    LegacyTorch legacy = read_legacy_torch(source, {.path = path}, limits);
    file->archive = std::move(legacy.archive);
    file->graph = std::move(legacy.graph);
    note_unreferenced(*file);
    if (legacy.end < bytes)
      file->unloaded.push_back(make_finding(ProblemId::legacy_trailing, Severity::kWarning, {.path = path, .offset = legacy.end},
                                            counted(bytes - legacy.end, "byte")));
  } else {
    ZipDirectory directory;
    file->archive = read_archive(source, {.path = path}, limits, directory);
    Limits left = limits;
    left.memory_bytes -= std::min(left.memory_bytes, pickle_memory(file->archive.pickle.size()));
    file->graph = std::make_unique<PickleGraph>(file->archive.pickle, file->archive.pickle_place, left);
    file->unloaded = unloaded_pickles(source, directory, note_unreferenced(*file), {.path = path}, limits);
  }
  check_names(*file);
  file->storages = by_key(file->archive);
  return file;
}

MetadataContent read_state_dict(TorchFile& file, const NamedState& of, const PartOf& part_of, TorchFacts& facts, const Limits& limits) {
  return TorchReader(file, of, part_of, facts, limits).read();
}

void take_facts(TorchFacts facts, const EntryValues& of, TorchFiles& torch) {
  for (const uint32_t value : of.items) torch.items.push_back(value == kNone ? TorchValue{} : facts.values.at(value));
  for (const uint32_t value : of.duplicates) torch.copies.push_back(facts.values.at(value));
  torch.strides = std::move(facts.strides);
}

// A torch.save file: its state dict, flattened (catalog/state_dict.h), each tensor one chunk.

namespace {

// A tensor's item is the record of its storage, which tensors may share; a byte item's is data.pkl. Throws what src/format and src/pickle
// throw, torch_no_state_dict, state_dict_*; not_checkpoint for archives of other kinds (TorchScript, torch.export).
OpenedCatalog open_torch_file(Found& found) {
  Store& store = found.store();
  const std::string& path = found.path();
  const OpenOptions& options = found.options();
  std::unique_ptr<TorchFile> file = read_torch_file(store, OpenFile(store, store.open_read(path)), path, options.limits);
  StateDict state(*file->graph, file->archive.pickle_place, options.limits);
  const std::string name = found.name();
  auto torch = std::make_shared<TorchFiles>();
  TorchFacts facts;
  EntryValues values;
  const PartOf no_part = [&](const StateDict::Leaf& leaf) -> std::optional<TensorPart> {
    if (!is_one_ranks(leaf.tensor.cls)) return {};
    Problem p = make_problem(ProblemId::torch_rank_part, {.path = path}, leaf.tensor.cls);
    if (is_rank_file(name)) p.hint = "give the folder: the files of all ranks are one checkpoint";
    throw Error(std::move(p));
  };
  const MetadataContent content = read_state_dict(*file, {name, state}, no_part, facts, options.limits);
  OpenedCatalog opened = build_catalog(content, path, found.folder(), CheckpointKind::kTorch, &values);
  Catalog& catalog = opened.catalog;
  catalog.provenance = {};
  catalog.single_file = true;
  catalog.files[0].raw = true;
  std::ranges::move(facts.findings, std::back_inserter(opened.findings));
  if (const auto& bad = file->graph->machine().bad_text())
    opened.unloadable.push_back(make_problem(ProblemId::pickle_unloadable, bad->place, bad->got, "UTF-8"));
  take_facts(std::move(facts), values, *torch);
  torch->odd_keys = file->odd_keys;
  torch->files.push_back(std::move(file));
  catalog.torch = std::move(torch);
  return opened;
}

}  // namespace

const Input torch_file_input{.is_at = [](Found& found) { return !found.is_folder() && is_torch_file(found.head()); },
                             .open = open_torch_file,
                             .is_file =
                                 [](std::string_view name) {
                                   return name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".bin") ||
                                          name.ends_with(".ckpt");
                                 }};

}  // namespace dcp
