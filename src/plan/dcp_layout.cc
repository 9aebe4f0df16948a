#include "plan/dcp_layout.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/checked.h"
#include "base/limits.h"
#include "base/sums.h"
#include "base/text.h"
#include "catalog/cover.h"
#include "catalog/data_files.h"
#include "catalog/structure.h"
#include "format/dcp_metadata.h"
#include "format/torch_archive.h"
#include "pickle/splice.h"
#include "pickle/writer.h"
#include "plan/layout.h"
#include "plan/plan.h"
#include "plan/plan_metadata.h"
#include "plan/tree.h"
#include "select/select.h"

namespace dcp {
namespace {

// Items of a DCP folder that are not plain tensors: Python objects, and tensors that are copied unchanged.

// Lays items out in a plan: literals and copies. The arguments must outlive it.
class DcpItems {
 public:
  struct Options {
    Limits limits;
    bool verify = true;  // check the CRC of copied bytes
  };
  struct At {
    uint32_t file = 0;
    uint64_t offset = 0;  // bytes
  };

  DcpItems(const SourceFacts& source, const Selection& selection, Options options, Plan& plan)
      : catalog_(source.catalog), resolved_(source.resolved), selection_(selection), options_(std::move(options)), plan_(plan) {}

  // Both return the bytes of the item. `key` is for messages.
  uint64_t copy(ItemId id, std::string_view key, At at);
  // A dict or list whose leaves are items of the source (plan/tree.h). They must have been resolved with their pickles.
  uint64_t container(const FlatEntries& flat, uint32_t node, At at);

 private:
  struct Storage {
    ItemId item = 0;
    bool from_decoded = false;
    const BlobItem::Storage* of = nullptr;
  };
  uint64_t copy_whole(ItemId id, std::string_view key, At at);
  uint64_t archive(std::string pickle, std::string byteorder, const std::vector<Storage>& storages, bool renumber, At at);
  void splice(const Entry& entry, PickleWriter& writer, std::vector<Storage>& storages) const;

  const Catalog& catalog_;
  const Resolved& resolved_;
  const Selection& selection_;
  const Options options_;
  Plan& plan_;
};

uint64_t DcpItems::copy(ItemId id, std::string_view key, At at) {
  const bool is_made = catalog_.items[id].file == kNone && resolved_.blobs.contains(id);
  if (!catalog_.traits().in_torch_files && !is_made) return copy_whole(id, key, at);
  // An item that shares a torch.save file with others gets its own archive, as does an object that was made.
  const BlobItem& blob = resolved_.blob(id).item;
  std::vector<Storage> storages;
  for (const BlobItem::Storage& s : blob.storages) storages.push_back({.item = id, .of = &s});
  return archive(std::string(as_text(blob.pickle)), blob.big_endian ? "big" : std::string(kByteorderLittle), storages, false, at);
}

// Copies an item unchanged. A transformed one is copied in its decoded form, which every torch can read.
uint64_t DcpItems::copy_whole(ItemId id, std::string_view key, At at) {
  const Item& item = catalog_.items[id];
  const auto found = resolved_.blobs.find(resolved_.first_of(id));
  const bool decoded = item.transforms != 0;
  if (found == resolved_.blobs.end()) {  // a chunk without elements
    check_item(catalog_, id, key, "item");
    if (decoded) fail(ProblemId::transform_unknown, catalog_.place_of(id, key), "an empty chunk of a tensor that is not plain");
  }
  CopyRange range{.item = id,
                  .from_decoded = decoded,
                  .source_offset = decoded ? 0 : item.offset,
                  .bytes = item.length,
                  .file = at.file,
                  .file_offset = at.offset};
  if (decoded) range.bytes = found->second.decoded.size();
  plan_.copies.push_back(range);
  if (found == resolved_.blobs.end() || !options_.verify) return range.bytes;
  for (const BlobItem::Storage& s : found->second.item.storages)
    if (s.has_crc && s.bytes > 0) add_check(plan_, {.at = s.payload - range.source_offset, .bytes = s.bytes, .crc = s.crc});
  return range.bytes;
}

uint64_t DcpItems::container(const FlatEntries& flat, uint32_t node, At at) {
  std::string pickle;
  PickleWriter writer(pickle, PickleProtocol::k2);
  std::vector<Storage> storages;
  writer.begin();
  write_container(*flat.tree, node, writer, [&](uint32_t entry) { splice(selection_.entries[entry], writer, storages); }, plan_.list_holes);
  writer.end();
  return archive(std::move(pickle), std::string(kByteorderLittle), storages, true, at);
}

void DcpItems::splice(const Entry& entry, PickleWriter& writer, std::vector<Storage>& storages) const {
  const ItemId item = catalog_.item_of(entry.blob());
  const ResolvedBlob& blob = resolved_.blob(item);
  const Place place = catalog_.place_of(item, catalog_.key(entry.ref));
  if (blob.item.big_endian && !blob.item.storages.empty()) fail(ProblemId::blob_big_endian, place);
  const StoragesByKey of_key = by_key(blob.item);
  const auto renumber = [&](std::string_view key) {
    const auto it = of_key.find(key);
    if (it == of_key.end()) fail(ProblemId::item_no_record, place, "data/" + std::string(key));
    storages.push_back({.item = item, .from_decoded = !blob.decoded.empty(), .of = it->second});
    return std::to_string(storages.size() - 1);
  };
  splice_pickle(blob.item.pickle, blob.item.pickle_place, options_.limits, renumber, writer);
}

// A storage whose writer computed no CRC gets none here, since its bytes are not seen.
uint64_t DcpItems::archive(std::string pickle, std::string byteorder, const std::vector<Storage>& storages, bool renumber, At at) {
  TorchArchiveLayout layout;
  std::vector<uint32_t> crcs;
  const auto literal = [&](std::string_view name, std::string bytes) {
    crcs.push_back(crc32(as_bytes(bytes)));
    const uint64_t offset = at.offset + layout.add(name, bytes.size());
    plan_.literals.push_back({.file = at.file, .file_offset = offset, .bytes = std::move(bytes)});
  };
  literal("data.pkl", std::move(pickle));
  literal("byteorder", std::move(byteorder));
  for (size_t n = 0; n < storages.size(); ++n) {
    const BlobItem::Storage& s = *storages[n].of;
    crcs.push_back(s.has_crc ? s.crc : 0);
    const uint64_t offset = at.offset + layout.add("data/" + (renumber ? std::to_string(n) : s.key), s.bytes);
    plan_.copies.push_back({.item = storages[n].item,
                            .packed = s.packed,
                            .from_decoded = storages[n].from_decoded,
                            .source_offset = s.payload,
                            .bytes = s.bytes,
                            .file = at.file,
                            .file_offset = offset});
    add_check(plan_, {.at = 0, .bytes = s.bytes, .crc = s.crc, .has_crc = options_.verify && s.has_crc});
  }
  literal("version", std::string(kArchiveVersion));
  layout.emit_frame(crcs, [&](uint64_t offset, Bytes bytes) {
    plan_.literals.push_back({.file = at.file, .file_offset = at.offset + offset, .bytes = std::string(as_text(bytes))});
  });
  return layout.total_bytes();
}

void add_metadata(Plan& plan, const Catalog& catalog) {
  OutputFile file{.name = ".metadata", .generated = Generated::kDcpMetadata, .archive = {}, .payloads = {}};
  write_plan_metadata(plan, catalog, [&](std::string_view block) { file.bytes += block.size(); });
  plan.bytes_to_write += file.bytes;
  plan.files.push_back(std::move(file));
}

class DcpLayout {
 public:
  DcpLayout(const SourceFacts& source, const Selection& selection, const DcpLayoutOptions& options, Plan& plan)
      : catalog_(source.catalog),
        resolved_(source.resolved),
        selection_(selection),
        options_(options),
        plan_(plan),
        torch_(torch_for(source.catalog, selection, options.torch)),
        flat_(torch_.version < TorchTarget::kFlattensPlainDicts ? flat_terminal(source.catalog, selection, options.limits)
                                                                : flat_leaves(selection)),
        entries_(flat_.entries),
        keys_(plan.keys.emplace(name_keys(source.catalog, selection, flat_))),
        items_(source, selection, {.limits = options.limits, .verify = options.units.verify}, plan),
        rules_(options.rules, entries_),
        file_bytes_(options.world_size, 0) {
    source_is_sharded_ = std::ranges::any_of(source.catalog.tensors, [&](const Tensor& t) { return is_sharded(source, t); });
    if (options.like)
      for (TensorId t = 0; t < options.like->tensors.size(); ++t) like_.emplace(options.like->key(options.like->tensors[t]), t);
  }

  void run() {
    plan_.folder = true;
    notes();
    refuse_collisions(catalog_, entries_);
    reserve();
    for (size_t e = 0; e < entries_.size(); ++e)
      if (entries_[e].is_blob()) byte_item(e);
    for (size_t e = 0; e < entries_.size(); ++e)
      if (!entries_[e].is_blob()) tensor(e, catalog_.tensors[entries_[e].tensor()]);
    for (uint32_t r = 0; r < options_.world_size; ++r) {
      plan_.files.push_back({.name = file_of_rank(r), .bytes = file_bytes_[r], .archive = {}, .payloads = {}});
      plan_.bytes_to_write += file_bytes_[r];
    }
    rules_.finish(catalog_.path, plan_.dcp->unmatched_placements, plan_.dcp->replicated);
    add_metadata(plan_, catalog_);
  }

 private:
  void notes() {
    DcpNotes& notes = plan_.dcp.emplace();
    notes.world_size = options_.world_size;
    notes.for_torch = torch_.version;
    notes.raised_by = torch_.raised_by;
    notes.containers = flat_.terminal.size();
    notes.rank_bound = rank_bound_entries(selection_);
    for (const ExtraAttribute& a : catalog_.provenance.attributes)
      if (!a.kept())
        notes.attributes_left_out.push_back({a.name, a.not_plain.empty() ? "it describes the save that made the source" : a.not_plain});
  }

  // Vectors that grow by doubling would exist twice: 2.5 million regions take 160 MB.
  void reserve() {
    uint64_t regions = 0, numbers = 0;
    for (const Entry& e : entries_) {
      if (e.is_blob()) continue;
      const Tensor& t = catalog_.tensors[e.tensor()];
      const bool few = options_.rules.empty() && !options_.like && !options_.source_boxes;  // the default: one row a region at least
      const uint64_t max =
          few && t.rank > 0 ? std::min<uint64_t>(options_.world_size, static_cast<uint64_t>(catalog_.dims(t)[0]) + 1) : options_.world_size;
      regions += max;
      numbers += (max * 2 + 1) * t.rank;  // and the steps of a cut
    }
    plan_.regions.reserve(regions);
    plan_.numbers.reserve(numbers);
  }

  uint32_t min_filled() const { return static_cast<uint32_t>(std::ranges::min_element(file_bytes_) - file_bytes_.begin()); }

  void byte_item(size_t e) {
    const auto container = flat_.terminal.find(narrow<uint32_t>(e));
    if (container == flat_.terminal.end()) return copy_item(e, catalog_.item_of(entries_[e].blob()), 0);
    place_item(e, 0, [&](DcpItems::At at) { return items_.container(flat_, container->second, at); });
  }

  void tensor(size_t e, const Tensor& t) {
    const bool quantized = facts_of(t.dtype).kind == DTypeKind::kQuantized;
    if (quantized || is_opaque({catalog_, resolved_}, entries_[e].tensor())) {  // not a plain tensor: its items are copied unchanged
      std::string text = quantized
                             ? "quantized: dcp.load gives it the scale of the tensor that it loads into, torch.load of its item its own"
                             : "of a subclass: dcp.load takes it only if the program allows the class";
      if (!options_.source_boxes && (t.chunk_count > 1 || options_.world_size > 1))
        text += "; it keeps its " + (t.chunk_count == 1 ? "one chunk" : std::to_string(t.chunk_count) + " chunks");
      plan_.dcp->kept_as_is.push_back({std::string(entries_[e].key), std::move(text)});
      for (uint32_t c = 0; c < t.chunk_count; ++c) copy_item(e, catalog_.item_of(t, c), min_filled());
      plan_.tensor_bytes += catalog_.tensor_bytes(t);
      return;
    }
    out_ = entries_[e].dtype;
    const uint64_t bytes = catalog_.elements(t) * bytes_of(out_);
    plan_.tensor_bytes += bytes;
    plan_.largest_tensor = std::max(plan_.largest_tensor, bytes);
    keys_.keys[e].at = narrow<uint32_t>(plan_.tensors.size());
    plan_.tensors.push_back({.id = entries_[e].tensor(), .first_region = narrow<uint32_t>(plan_.regions.size())});
    boxes_.clear();
    if (options_.source_boxes) by_source(t);
    else if (const auto placements = rules_.of(entries_[e].key, t.rank)) by_rule(t, *placements);
    else if (!by_like(e, t)) by_default(t);
    plan_.tensors.back().region_count = narrow<uint32_t>(plan_.regions.size()) - plan_.tensors.back().first_region;
  }

  void by_rule(const Tensor& t, const std::vector<Placement>& placements) {
    place_ranks(options_.mesh, placements, catalog_.dims(t), boxes_);
    deal(t);
  }

  bool by_like(size_t e, const Tensor& t) {
    if (!options_.like) return false;
    const Catalog& like = *options_.like;
    const std::string_view key = entries_[e].key;
    const auto found = like_.find(key);
    std::string why;
    if (found == like_.end()) why = "the other checkpoint has no such tensor";
    else if (!std::ranges::equal(like.dims(like.tensors[found->second]), catalog_.dims(t)))
      why = "the other checkpoint has it with another shape";
    if (!why.empty()) {
      plan_.dcp->default_layout.push_back({std::string(key), why});
      return false;
    }
    const Tensor& other = like.tensors[found->second];
    if (check_cover(like, other)) fail(ProblemId::like_not_whole, {.path = like.path, .tensor = std::string(key)});
    take_boxes(like, other, t);
    return true;
  }

  // Takes the source's boxes, in the source's order in each file.
  void by_source(const Tensor& t) {
    take_boxes(catalog_, t, t);
    const std::span<Region> regions = std::span(plan_.regions).subspan(plan_.tensors.back().first_region);
    std::vector<std::pair<uint64_t, Region*>> order;  // by place in the source
    uint32_t c = 0;
    for (Region& r : regions) {  // regions and chunks are both in the order of their offsets
      const BoxView box = plan_.box(r);
      while (!std::ranges::equal(catalog_.box(t, c).offsets, box.offsets) || !std::ranges::equal(catalog_.box(t, c).sizes, box.sizes)) ++c;
      order.emplace_back(catalog_.items[catalog_.item_of(t, c)].offset, &r);
    }
    std::map<uint32_t, uint64_t> next;  // by file: where its first region of this tensor begins
    for (const Region& r : regions) next.try_emplace(r.file, r.file_offset - r.head);
    std::ranges::stable_sort(order, {}, [](const auto& o) { return o.first; });
    for (const auto& [offset, r] : order) {
      r->file_offset = next[r->file] + r->head;
      next[r->file] = r->file_offset + plan_.payload_bytes(*r) + r->tail;
    }
  }

  // Takes the boxes of `other` in `from`, on the ranks whose files hold them there.
  void take_boxes(const Catalog& from, const Tensor& other, const Tensor& t) {
    for (uint32_t c = 0; c < other.chunk_count; ++c) {
      const BoxView box = from.box(other, c);
      boxes_.numbers.insert(boxes_.numbers.end(), box.offsets.begin(), box.offsets.end());
      boxes_.numbers.insert(boxes_.numbers.end(), box.sizes.begin(), box.sizes.end());
      const uint32_t file = from.items[from.item_of(other, c)].file;
      const std::optional<uint32_t> rank = file == kNone ? std::nullopt : rank_of_file(from.file_name(file));
      boxes_.rank_of.push_back(rank && *rank < options_.world_size ? *rank : min_filled());
    }
    deal(t);
  }

  void by_default(const Tensor& t) {
    const Dims dims = catalog_.dims(t);
    const bool split =
        t.rank > 0 && volume(dims) > 0 && options_.world_size > 1 && (is_sharded({catalog_, resolved_}, t) || !source_is_sharded_);
    if (!split) return region(t, add_whole_box(plan_, dims), min_filled());
    // place_ranks() gives the same, but is too slow for 2.5 million regions.
    const int64_t each = (dims[0] + options_.world_size - 1) / options_.world_size;
    for (uint32_t rank = 0; rank < options_.world_size; ++rank) {
      const int64_t offset = std::min(dims[0], each * rank);
      const uint64_t at = add_whole_box(plan_, dims);
      plan_.numbers[at] = offset;
      plan_.numbers[at + t.rank] = std::min(each, dims[0] - offset);
      region(t, at, rank);
      if (offset == dims[0]) break;  // an empty chunk, which all further ranks would repeat
    }
  }

  // Adds regions in the order of their offsets. Boxes with the same offsets are one box to torch; the least filled rank writes it.
  void deal(const Tensor& t) {
    const size_t rank = t.rank;
    std::vector<uint32_t> order(boxes_.rank_of.size());
    for (uint32_t n = 0; n < order.size(); ++n) order[n] = n;
    const auto offsets = [&](uint32_t n) { return boxes_.box(n, rank).offsets; };
    std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return std::ranges::lexicographical_compare(offsets(a), offsets(b)); });
    for (size_t i = 0; i < order.size();) {
      uint32_t chosen = order[i];
      const auto cost = [&](uint32_t n) { return std::pair(volume(boxes_.box(n, rank).sizes) == 0, file_bytes_[boxes_.rank_of[n]]); };
      size_t end = i;
      for (; end < order.size() && std::ranges::equal(offsets(order[end]), offsets(order[i])); ++end)
        if (cost(order[end]) < cost(chosen)) chosen = order[end];
      i = end;
      const uint64_t at = plan_.numbers.size();
      const auto from = boxes_.numbers.begin() + static_cast<int64_t>(chosen * 2 * rank);
      plan_.numbers.insert(plan_.numbers.end(), from, from + static_cast<int64_t>(2 * rank));
      region(t, at, boxes_.rank_of[chosen]);
    }
  }

  void region(const Tensor& t, uint64_t box_at, uint32_t rank) {
    const Dims sizes(plan_.numbers.data() + box_at + t.rank, t.rank);
    const TensorItemFrame& frame = frames_.of(out_, sizes);
    plan_.regions.push_back({.file_offset = file_bytes_[rank] + frame.head().size(),
                             .box_at = box_at,
                             .tensor = narrow<uint32_t>(plan_.tensors.size() - 1),
                             .file = rank,
                             .head = narrow<uint16_t>(frame.head().size()),
                             .tail = narrow<uint16_t>(frame.tail_bytes()),
                             .dtype = out_,
                             .rank = t.rank});
    file_bytes_[rank] += frame.head().size() + volume(sizes) * bytes_of(out_) + frame.tail_bytes();
  }

  void copy_item(size_t e, ItemId id, uint32_t rank) {
    // Keys that have one item in the source have one in the output.
    const auto [placed, fresh] = placed_.try_emplace(resolved_.first_of(id), narrow<uint32_t>(keys_.slices.size()));
    if (!fresh) return name_slice(e, keys_.slices[placed->second]);
    place_item(e, rank, [&](DcpItems::At at) { return items_.copy(id, entries_[e].key, at); });
  }

  template <class LayOut>
  void place_item(size_t e, uint32_t rank, LayOut lay_out) {
    const uint64_t length = lay_out(DcpItems::At{rank, file_bytes_[rank]});
    name_slice(e, {rank, file_bytes_[rank], length});
    file_bytes_[rank] += length;
  }

  void name_slice(size_t e, Slice slice) {
    if (!keys_.keys[e].copied) keys_.keys[e].at = narrow<uint32_t>(keys_.slices.size());
    keys_.keys[e].copied = true;
    keys_.slices.push_back(slice);
  }

  const Catalog& catalog_;
  const Resolved& resolved_;
  const Selection& selection_;
  const DcpLayoutOptions& options_;
  Plan& plan_;
  const TorchNeeded torch_;
  const FlatEntries flat_;
  const std::vector<Entry>& entries_;
  DcpKeys& keys_;  // plan_.keys
  DcpItems items_;
  PlacementRules rules_;
  std::vector<uint64_t> file_bytes_;             // by rank
  std::unordered_map<ItemId, uint32_t> placed_;  // items that are copied, in keys_.slices
  std::unordered_map<std::string_view, TensorId> like_;
  bool source_is_sharded_ = false;
  RankBoxes boxes_;
  DType out_{};  // of the tensor being laid out
  TensorItemFrames frames_;
};

}  // namespace

bool is_sharded(const SourceFacts& source, const Tensor& t) {
  const Catalog& catalog = source.catalog;
  if (source.resolved.views.any()) return source.resolved.views.sharded[static_cast<size_t>(&t - catalog.tensors.data())];
  return t.chunk_count > 1 || (t.chunk_count == 1 && !std::ranges::equal(catalog.box(t, 0).sizes, catalog.dims(t)));
}

uint32_t ranks_shown(const Catalog& catalog) {
  uint32_t ranks = 0;
  for (uint32_t f = 0; f < catalog.files.size(); ++f)
    if (const auto rank = rank_of_file(catalog.file_name(f))) ranks = std::max(ranks, *rank + 1);
  return ranks;
}

Plan plan_dcp(const SourceFacts& source, const Selection& selection, const DcpLayoutOptions& options) {
  refuse_opaque_casts(source, selection);
  Plan plan;
  DcpLayout(source, selection, options, plan).run();
  cut_into_units(plan, source, options.units);
  return plan;
}

namespace {

// The N in `rank_N` or `dp_rank_N`.
std::optional<uint64_t> rank_in(std::string_view component) {
  const size_t digits = component.find_last_not_of("0123456789") + 1;
  const std::string_view name = component.substr(0, digits), number = component.substr(digits);
  const bool is_rank = name == "rank_" || name.ends_with("_rank_");
  return is_rank ? decimal<uint64_t>(number) : std::nullopt;
}

}  // namespace

std::vector<RankBound> rank_bound_entries(const Selection& selection) {
  std::vector<RankBound> found;
  std::unordered_map<std::string, size_t> numbers;  // by stem
  for (const Entry& e : selection.entries) {
    if (!e.is_blob()) continue;
    const std::string_view key = e.key;
    for (size_t begin = 0; begin < key.size();) {
      const size_t end = std::min(key.find('.', begin), key.size());
      const std::string_view component = key.substr(begin, end - begin);
      if (const std::optional<uint64_t> rank = rank_in(component)) {
        const std::string stem(key.substr(0, begin + component.find_last_not_of("0123456789") + 1));
        const auto [group, fresh] = numbers.try_emplace(stem, found.size());
        if (fresh) found.push_back({.stem = stem, .exclude = (begin > 0 ? std::string(key.substr(0, begin)) : stem) + "*", .ranks = {}});
        found[group->second].ranks.push_back(*rank);
        break;
      }
      begin = end + 1;
    }
  }
  for (RankBound& group : found) {
    std::ranges::sort(group.ranks);
    group.ranks.erase(std::unique(group.ranks.begin(), group.ranks.end()),
                      group.ranks.end());  // clang 14 cannot compile std::ranges' version
  }
  return found;
}

TorchNeeded torch_for(const Catalog& catalog, const Selection& selection, const TorchTarget& target) {
  TorchNeeded needed{.version = target.version, .raised_by = {}};
  std::set<DType> met;
  for (const Entry& e : selection.entries) {
    if (e.is_blob() || !met.insert(e.dtype).second) continue;
    const DTypeFacts& dtype = facts_of(e.dtype);
    if (dtype.since_torch <= target.version) continue;
    if (target.requested)
      fail(ProblemId::dtype_needs_torch, {.path = catalog.path, .tensor = std::string(catalog.key(e.ref))}, std::string(dtype.name),
           "torch " + torch_release(dtype.since_torch) + " or later");
    needed.version = std::max<unsigned>(needed.version, dtype.since_torch);
    needed.raised_by.push_back({std::string(e.key), std::string(dtype.name) + " came with torch " + torch_release(dtype.since_torch)});
  }
  return needed;
}

}  // namespace dcp
