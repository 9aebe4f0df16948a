#include "plan/layout.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>

#include "base/checked.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "format/torch_item_write.h"
#include "pickle/splice.h"
#include "pickle/weights_only.h"
#include "plan/tree.h"

namespace dcp {

void add_check(Plan& plan, const CopyCheck& check) {
  CopyRange& range = plan.copies.back();
  if (range.check_count++ == 0) range.first_check = narrow<uint32_t>(plan.copy_checks.size());
  plan.copy_checks.push_back(check);
}

uint64_t add_whole_box(Plan& plan, Dims dims) {
  const uint64_t at = plan.numbers.size();
  plan.numbers.insert(plan.numbers.end(), dims.size(), 0);
  plan.numbers.insert(plan.numbers.end(), dims.begin(), dims.end());
  return at;
}

bool is_opaque(const SourceFacts& source, TensorId id) {
  const Tensor& t = source.catalog.tensors[id];
  for (uint32_t c = 0; c < t.chunk_count; ++c)
    if (source.resolved.items[source.catalog.item_of(t, c)].opaque) return true;
  return false;
}

void refuse_opaque(const SourceFacts& source, TensorId id) {
  if (!is_opaque(source, id)) return;
  const Catalog& catalog = source.catalog;
  Problem p = make_problem(ProblemId::cast_opaque, {.path = catalog.path, .tensor = std::string(catalog.key(catalog.tensors[id]))},
                           "one that is quantized or a subclass");
  p.what = "only plain tensors have elements that stand for themselves";
  const bool is_in_pieces = catalog.tensors[id].chunk_count > 1;
  p.hint = is_in_pieces ? "only a distributed checkpoint holds it, in the chunks that it has here" : "a .pt file holds it whole";
  throw Error(std::move(p));
}

void refuse_opaque_casts(const SourceFacts& source, const Selection& selection) {
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) continue;
    const Tensor& t = source.catalog.tensors[e.tensor()];
    if (e.dtype == t.dtype || !is_opaque(source, e.tensor())) continue;
    fail(ProblemId::cast_opaque, {.path = source.catalog.path, .tensor = std::string(source.catalog.key(t))},
         std::string(facts_of(t.dtype).name) + " that is quantized or a subclass");
  }
}

// Files of one tensor each: its elements, row-major and little-endian, alone or after the header of a .npy file.

namespace {

// Adds a region for the whole tensor, at a place that is set later; returns its bytes.
uint64_t add_region(const SourceFacts& source, const Entry& e, uint32_t file, Plan& plan) {
  refuse_opaque(source, e.tensor());
  const Tensor& t = source.catalog.tensors[e.tensor()];
  const uint64_t bytes = source.catalog.elements(t) * bytes_of(e.dtype);
  plan.regions.push_back({.box_at = add_whole_box(plan, source.catalog.dims(t)),
                          .tensor = narrow<uint32_t>(plan.tensors.size()),
                          .file = file,
                          .dtype = e.dtype,
                          .rank = t.rank});
  plan.tensors.push_back({.id = e.tensor(), .first_region = narrow<uint32_t>(plan.regions.size() - 1), .region_count = 1});
  plan.tensor_bytes += bytes;
  plan.largest_tensor = std::max(plan.largest_tensor, bytes);
  return bytes;
}

}  // namespace

Plan plan_arrays(const SourceFacts& source, const Selection& selection, ArrayForm form, const UnitOptions& units) {
  refuse_opaque_casts(source, selection);
  Plan plan;
  for (const Entry& e : selection.entries) {
    const auto file = narrow<uint32_t>(plan.files.size());
    const uint64_t bytes = add_region(source, e, file, plan);
    uint64_t at = 0;
    if (form == ArrayForm::kNpy) {
      plan.literals.push_back({.file = file, .bytes = npy_header(e.dtype, source.catalog.dims(source.catalog.tensors[e.tensor()]))});
      at = plan.literals.back().bytes.size();
    }
    plan.regions.back().file_offset = at;
    plan.files.push_back({.name = {}, .bytes = at + bytes, .archive = std::nullopt, .payloads = {}});
    plan.bytes_to_write += at + bytes;
  }
  cut_into_units(plan, source, units);
  return plan;
}

namespace {

// A tensor that goes into the output, with its name there.
struct Named {
  TensorId id = 0;
  std::string name;
  DType dtype{};
  uint64_t bytes = 0;
};

std::vector<Named> tensors_of(const SourceFacts& source, const Selection& selection, Plan& plan) {
  std::vector<Named> tensors;
  std::map<std::string_view, TensorId> names;
  std::string lacking;
  uint64_t lacking_count = 0;
  bool no_file_has = false;  // a tensor that is not plain, and is in pieces or would be cast: a .pt cannot hold it either
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) {
      ++plan.left_out_blobs;
      continue;
    }
    const Tensor& t = source.catalog.tensors[e.tensor()];
    const bool opaque = is_opaque(source, e.tensor());
    if (opaque || facts_of(e.dtype).safetensors.empty()) {
      no_file_has = no_file_has || (opaque && (t.chunk_count > 1 || selection.casts.requested));
      // Name all of them, so that the user does not meet them one by one.
      if (++lacking_count <= 20)
        lacking += (lacking.empty() ? "" : ", ") + std::string(source.catalog.key(t)) + " (" +
                   std::string(source.catalog.strings[t.dtype_name]) + ")";
      continue;
    }
    Named n{e.tensor(), std::string(e.key), e.dtype, source.catalog.elements(t) * bytes_of(e.dtype)};
    const auto [it, fresh] = names.try_emplace(e.key, e.tensor());
    if (!fresh)
      fail(ProblemId::keys_collide, {.path = source.catalog.path, .tensor = std::string(source.catalog.key(t))},
           "'" + n.name + "', which is also the name of '" + std::string(source.catalog.key(source.catalog.tensors[it->second])) + "'");
    tensors.push_back(std::move(n));
  }
  if (lacking_count > 20) lacking += " and " + std::to_string(lacking_count - 20) + " more";
  if (lacking_count > 0) {
    Problem p = make_problem(ProblemId::no_dtype_in_output, {.path = source.catalog.path}, lacking);
    if (no_file_has) p.remedy = Remedy::kFewerKeys;
    throw Error(std::move(p));
  }
  if (tensors.empty() && !source.catalog.order.empty()) fail(ProblemId::nothing_selected, {.path = source.catalog.path}, "no tensor");
  return tensors;
}

struct Shard {
  std::string name;  // "": numbered
  std::vector<Named> tensors;
};

// Greedy, in the metadata's order, as transformers splits a state dict: a tensor larger than the limit gets a shard of its own.
std::vector<Shard> into_shards(std::vector<Named> tensors, uint64_t limit) {
  std::vector<Shard> shards(1);
  uint64_t held = 0;
  for (Named& t : tensors) {
    if (limit > 0 && !shards.back().tensors.empty() && held + t.bytes > limit) {
      shards.emplace_back();
      held = 0;
    }
    held += t.bytes;
    shards.back().tensors.push_back(std::move(t));
  }
  return shards;
}

// A shard for each file that a tensor begins in, in the order of the files' names.
std::vector<Shard> shards_of_source(const Catalog& catalog, std::vector<Named> tensors) {
  std::map<uint32_t, std::vector<Named>> by_file;
  for (Named& t : tensors) by_file[catalog.items[catalog.item_of(catalog.tensors[t.id], 0)].file].push_back(std::move(t));
  std::vector<Shard> shards;
  for (auto& [file, held] : by_file) shards.push_back({.name = {}, .tensors = std::move(held)});
  return shards;
}

// Puts each tensor into the file that an index names for it.
std::vector<Shard> shards_as_in(const LayoutOptions& options, std::vector<Named> tensors) {
  const std::map<std::string_view, std::string_view> file_of(options.file_of.begin(), options.file_of.end());
  std::map<std::string_view, std::vector<Named>> by_file;
  for (Named& t : tensors) {
    const auto file = file_of.find(t.name);
    if (file == file_of.end())
      fail(ProblemId::hf_index_bad, {.path = options.file_of_path, .tensor = t.name}, "no file for it",
           "one for each tensor that is written");
    if (file->second.find('/') != std::string_view::npos || !file->second.ends_with(".safetensors"))
      fail(ProblemId::hf_index_bad, {.path = options.file_of_path, .tensor = t.name}, std::string(file->second),
           "the name of a safetensors file");
    by_file[file->second].push_back(std::move(t));
  }
  std::vector<Shard> shards;
  for (auto& [name, held] : by_file) shards.push_back({.name = std::string(name), .tensors = std::move(held)});
  return shards;
}

void lay_out(const Catalog& catalog, std::vector<Named> tensors, std::string file_name, Plan& plan) {
  std::ranges::sort(tensors, [&](const Named& a, const Named& b) { return safetensors_before(a.dtype, a.name, b.dtype, b.name); });
  std::vector<SafetensorsEntry> entries;
  for (const Named& n : tensors) {
    const Dims shape = output_shape(plan, catalog, n.id);
    entries.push_back({.name = n.name, .dtype = n.dtype, .shape = {shape.begin(), shape.end()}});
  }
  const auto file = narrow<uint32_t>(plan.files.size());
  plan.literals.push_back({.file = file, .bytes = write_safetensors_header(entries, {{"format", "pt"}})});
  uint64_t bytes = plan.literals.back().bytes.size();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto region = narrow<uint32_t>(plan.regions.size());
    plan.regions.push_back({.file_offset = entries[i].offset,
                            .box_at = add_whole_box(plan, catalog.dims(catalog.tensors[tensors[i].id])),
                            .tensor = narrow<uint32_t>(plan.tensors.size()),
                            .file = file,
                            .dtype = entries[i].dtype,
                            .rank = catalog.tensors[tensors[i].id].rank});
    plan.tensors.push_back({.id = tensors[i].id, .first_region = region, .region_count = 1});
    plan.tensor_bytes += tensors[i].bytes;
    plan.largest_tensor = std::max(plan.largest_tensor, tensors[i].bytes);
    bytes = entries[i].offset + entries[i].bytes;
  }
  plan.bytes_to_write += bytes;
  plan.files.push_back({.name = std::move(file_name), .bytes = bytes, .archive = std::nullopt, .payloads = {}});
}

std::string shard_name(size_t number, size_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors", number, count);
  return text;
}

}  // namespace

Plan plan_safetensors(const SourceFacts& source, const Selection& selection, const LayoutOptions& options) {
  Plan plan;
  plan.mcore_shapes = options.mcore_shapes;
  plan.folder = options.max_shard_bytes > 0 || options.shards_of_source || !options.file_of.empty();
  std::vector<Named> tensors = tensors_of(source, selection, plan);
  std::vector<Shard> shards = options.shards_of_source   ? shards_of_source(source.catalog, std::move(tensors))
                              : !options.file_of.empty() ? shards_as_in(options, std::move(tensors))
                                                         : into_shards(std::move(tensors), options.max_shard_bytes);
  std::vector<std::pair<std::string, std::string>> weight_map;
  for (size_t s = 0; s < shards.size(); ++s) {
    const std::string name = !plan.folder ? "" : !shards[s].name.empty() ? shards[s].name : shard_name(s + 1, shards.size());
    for (const Named& n : shards[s].tensors) weight_map.emplace_back(n.name, name);
    lay_out(source.catalog, std::move(shards[s].tensors), name, plan);
  }
  if (plan.folder) {  // the index comes last: its presence means that the folder is complete
    std::string index = write_hf_index(plan.tensor_bytes, weight_map);
    const uint64_t bytes = index.size();
    plan.literals.push_back({.file = narrow<uint32_t>(plan.files.size()), .bytes = std::move(index)});
    plan.files.push_back({.name = "model.safetensors.index.json", .bytes = bytes, .archive = std::nullopt, .payloads = {}});
    plan.bytes_to_write += bytes;
  }
  cut_into_units(plan, source, options.units);
  return plan;
}

namespace {

class TorchLayout {
 public:
  TorchLayout(const SourceFacts& source, const LayoutOptions& options, Plan& plan)
      : catalog_(source.catalog), resolved_(source.resolved), options_(options), plan_(plan), writer_(pickle_, PickleProtocol::k2) {
    for (const auto& [item, first] : source.resolved.shared) shared_.insert(first);
  }

  void run(const Selection& selection) {
    entries_ = selection.entries;
    if (options_.weights_only_safe) leave_out_unsafe();
    if (entries_.empty() && !catalog_.order.empty()) fail(ProblemId::nothing_selected, {.path = catalog_.path});
    // A growing string exists twice. Real pickles have 250 bytes a tensor.
    uint64_t bytes = 300 * entries_.size();
    for (const auto& [item, b] : resolved_.blobs) bytes += b.item.pickle.size();
    pickle_.reserve(bytes);
    writer_.begin();
    if (options_.bare) leaf(entries_.front());
    else containers(selection);
    writer_.end();
    archive();
    plan_.unsafe_globals.assign(unsafe_.begin(), unsafe_.end());
  }

 private:
  // A storage of the archive, in order of its key: data/0, data/1, ...
  struct Storage {
    ArchivePayload payload;
    uint64_t bytes = 0;
  };

  bool spliced(const Entry& e) const { return e.is_blob() || is_opaque({catalog_, resolved_}, e.tensor()); }
  ItemId spliced_item(const Entry& e) const {
    if (e.is_blob()) return catalog_.item_of(e.blob());
    return catalog_.item_of(catalog_.tensors[e.tensor()], 0);
  }

  void leave_out_unsafe() {
    std::map<ItemId, std::string> known;  // for items with several keys
    std::erase_if(entries_, [&](const Entry& e) {
      if (!spliced(e)) return false;
      const ItemId item = spliced_item(e);
      const auto [why, fresh] = known.try_emplace(resolved_.first_of(item));
      if (fresh) why->second = refused_in(e, item);
      if (why->second.empty()) return false;
      plan_.left_out.push_back({std::string(catalog_.key(e.ref)), why->second});
      return true;
    });
  }

  std::string refused_in(const Entry& e, ItemId item) const {
    std::string scratch;
    PickleWriter writer(scratch, PickleProtocol::k2);
    return refused(splice_pickle(
        resolved_.blob(item).item.pickle, catalog_.place_of(item, catalog_.key(e.ref)), options_.limits,
        [](std::string_view key) { return std::string(key); }, writer));
  }

  // What torch.load(weights_only=True) refuses in a byte item; "" if it refuses nothing.
  static std::string refused(const SpliceResult& result) {
    std::string text;
    for (const std::string& g : result.globals)
      if (!weights_only_allows(g)) text += (text.empty() ? "" : ", ") + g;
    if (text.empty() && !result.weights_only_opcodes) text = "opcodes of a newer pickle protocol";
    return text;
  }

  void containers(const Selection& selection) {
    const Tree tree(catalog_, selection, entries_, options_.limits);
    write_container(tree, 0, writer_, [&](uint32_t entry) { leaf(entries_[entry]); }, plan_.list_holes);
  }

  void leaf(const Entry& e) {
    if (spliced(e)) splice(e);
    else tensor(e);
  }

  // A global or text that every tensor uses: it is written once and then read from the memo.
  void shared(std::string_view module, std::string_view name) {
    const auto [it, fresh] = memo_.try_emplace(std::string(module) + '\n' + std::string(name));
    if (!fresh) return writer_.get(it->second);
    if (module.empty()) writer_.text(name);
    else writer_.global(module, name);
    it->second = writer_.put();
  }

  // _rebuild_tensor_v2(storage, 0, size, stride, False, OrderedDict()); v3, with an untyped storage and the dtype last, for dtypes that
  // have no storage class of their own. Source: torch/_utils.py.
  void tensor(const Entry& e) {
    const Tensor& t = catalog_.tensors[e.tensor()];
    const DTypeFacts& dtype = facts_of(e.dtype);
    const Dims dims = catalog_.dims(t);
    const bool typed = !dtype.storage.empty();
    const uint64_t elements = volume(dims), bytes = elements * dtype.bytes;
    shared("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    writer_.op(Op::MARK);
    writer_.op(Op::MARK);
    shared("", "storage");
    if (typed) shared("torch", dtype.storage);
    else shared("torch.storage", "UntypedStorage");
    writer_.text(std::to_string(storages_.size()));
    shared("", "cpu");
    writer_.integer(static_cast<int64_t>(typed ? elements : bytes));
    writer_.op(Op::TUPLE);
    writer_.op(Op::BINPERSID);
    writer_.integer(0);
    const Dims shape = output_shape(plan_, catalog_, e.tensor());
    numbers(shape);
    numbers(contiguous_strides(shape));
    writer_.boolean(false);
    shared("collections", "OrderedDict");
    writer_.op(Op::EMPTY_TUPLE);
    writer_.op(Op::REDUCE);
    if (!typed) shared("torch", dtype.name);
    writer_.op(Op::TUPLE);
    writer_.op(Op::REDUCE);

    const auto region = narrow<uint32_t>(plan_.regions.size());
    plan_.regions.push_back({.box_at = add_whole_box(plan_, dims),
                             .tensor = narrow<uint32_t>(plan_.tensors.size()),
                             .dtype = e.dtype,
                             .rank = narrow<uint8_t>(dims.size())});
    plan_.tensors.push_back({.id = e.tensor(), .first_region = region, .region_count = 1});
    storages_.push_back({{ArchivePayload::Kind::kRegion, region}, bytes});
    plan_.tensor_bytes += bytes;
    plan_.largest_tensor = std::max(plan_.largest_tensor, bytes);
  }

  void numbers(Dims values) {
    if (values.size() > 3) writer_.op(Op::MARK);
    for (int64_t v : values) writer_.integer(v);
    if (values.size() > 3) writer_.op(Op::TUPLE);
    else writer_.tuple(values.size());
  }

  void splice(const Entry& e) {
    const ItemId item = spliced_item(e);
    const ResolvedBlob& blob = resolved_.blob(item);
    const Place place = catalog_.place_of(item, catalog_.key(e.ref));
    if (blob.item.big_endian && !blob.item.storages.empty()) fail(ProblemId::blob_big_endian, place);
    const StoragesByKey of_key = by_key(blob.item);
    const auto rename = [&](std::string_view key) {
      const auto it = of_key.find(key);
      if (it == of_key.end()) fail(ProblemId::item_no_record, place, "data/" + std::string(key));
      const BlobItem::Storage& s = *it->second;
      const auto copy = narrow<uint32_t>(plan_.copies.size());
      plan_.copies.push_back(
          {.item = item, .packed = s.packed, .from_decoded = !blob.decoded.empty(), .source_offset = s.payload, .bytes = s.bytes});
      add_check(plan_, {.at = 0, .bytes = s.bytes, .crc = s.crc, .has_crc = options_.units.verify && s.has_crc});
      storages_.push_back({{ArchivePayload::Kind::kCopy, copy}, s.bytes});
      return std::to_string(storages_.size() - 1);
    };
    // Keys that have one item in the source have one value in the output.
    const ItemId first = resolved_.first_of(item);
    if (const auto done = spliced_.find(first); done != spliced_.end()) {
      writer_.get(done->second.slot);
      if (done->second.is_unsafe)
        plan_.unsafe.push_back({std::string(catalog_.key(e.ref)), "one item with '" + std::string(done->second.key) + "'"});
      return;
    }
    const SpliceResult result = splice_pickle(blob.item.pickle, blob.item.pickle_place, options_.limits, rename, writer_);
    const std::string why = refused(result);
    if (!why.empty()) plan_.unsafe.push_back({std::string(catalog_.key(e.ref)), why});
    for (const std::string& g : result.globals)
      if (!weights_only_allows(g)) unsafe_.insert(g);
    if (shared_.contains(first)) spliced_[first] = {writer_.put(), !why.empty(), catalog_.key(e.ref)};
  }

  // Records in torch's order: data.pkl, byteorder, data/0.., version.
  void archive() {
    OutputFile file;
    file.archive.emplace();
    const auto literal = [&](const char* name, std::string bytes) {
      const uint64_t at = file.archive->add(name, bytes.size());
      file.payloads.push_back({ArchivePayload::Kind::kLiteral, narrow<uint32_t>(plan_.literals.size())});
      plan_.literals.push_back({.file = 0, .file_offset = at, .bytes = std::move(bytes)});
    };
    literal("data.pkl", std::move(pickle_));
    literal("byteorder", std::string(kByteorderLittle));
    for (size_t s = 0; s < storages_.size(); ++s) {
      const uint64_t at = file.archive->add("data/" + std::to_string(s), storages_[s].bytes);
      file.payloads.push_back(storages_[s].payload);
      if (storages_[s].payload.kind == ArchivePayload::Kind::kRegion) plan_.regions[storages_[s].payload.index].file_offset = at;
      else plan_.copies[storages_[s].payload.index].file_offset = at;
    }
    literal("version", std::string(kArchiveVersion));
    file.bytes = file.archive->total_bytes();
    plan_.bytes_to_write = file.bytes;
    plan_.files.push_back(std::move(file));
  }

  const Catalog& catalog_;
  const Resolved& resolved_;
  const LayoutOptions& options_;
  Plan& plan_;
  std::vector<Entry> entries_;
  std::string pickle_;
  PickleWriter writer_;
  std::map<std::string, uint64_t> memo_;
  std::vector<Storage> storages_;
  std::set<std::string> unsafe_;
  struct Spliced {
    uint64_t slot = 0;
    bool is_unsafe = false;
    std::string_view key = {};
  };
  std::set<ItemId> shared_;            // items with several keys
  std::map<ItemId, Spliced> spliced_;  // those that are written already
};

void refuse_opaque_pieces(const SourceFacts& source, const Selection& selection) {
  const Catalog& catalog = source.catalog;
  for (const Entry& e : selection.entries) {
    if (e.is_blob() || catalog.tensors[e.tensor()].chunk_count == 1 || !is_opaque(source, e.tensor())) continue;
    fail(ProblemId::opaque_sharded, {.path = catalog.path, .tensor = std::string(catalog.key(e.ref))},
         std::to_string(catalog.tensors[e.tensor()].chunk_count) + " chunks");
  }
}

}  // namespace

Plan plan_torch(const SourceFacts& source, const Selection& selection, const LayoutOptions& options) {
  refuse_opaque_pieces(source, selection);  // first, because these are refused even without a cast
  refuse_opaque_casts(source, selection);
  Plan plan;
  plan.mcore_shapes = options.mcore_shapes;
  TorchLayout(source, options, plan).run(selection);
  cut_into_units(plan, source, options.units);
  return plan;
}

Plan plan_npz(const SourceFacts& source, const Selection& selection, const UnitOptions& units) {
  refuse_opaque_casts(source, selection);
  Plan plan;
  OutputFile file;
  file.archive.emplace("");
  std::set<std::string_view> names;
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) {
      ++plan.left_out_blobs;
      continue;
    }
    if (!names.insert(e.key).second)
      fail(ProblemId::keys_collide, {.path = source.catalog.path, .tensor = std::string(source.catalog.key(e.ref))},
           "'" + std::string(e.key) + "', which is also the name of another");
    const uint64_t bytes = add_region(source, e, 0, plan);
    std::string header = npy_header(e.dtype, source.catalog.dims(source.catalog.tensors[e.tensor()]));
    const uint64_t at = file.archive->add(std::string(e.key) + ".npy", header.size() + bytes);
    file.payloads.push_back({ArchivePayload::Kind::kRegion, narrow<uint32_t>(plan.regions.size() - 1)});
    plan.regions.back().file_offset = at + header.size();
    plan.literals.push_back({.file = 0, .file_offset = at, .bytes = std::move(header)});
  }
  file.bytes = plan.bytes_to_write = file.archive->total_bytes();
  plan.files.push_back(std::move(file));
  cut_into_units(plan, source, units);
  return plan;
}

}  // namespace dcp
