#include <algorithm>
#include <map>
#include <set>

#include "base/checked.h"
#include "format/torch_item_write.h"
#include "pickle/splice.h"
#include "pickle/weights_only.h"
#include "plan/layout.h"
#include "plan/tree_pickle.h"

namespace dcp {
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

}  // namespace dcp
