#include "plan/units.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "catalog/box.h"
#include "kernels/kernels.h"
#include "plan/record_cover.h"

namespace dcp {
namespace {

// The size of a tensor's units on each dim.

// Properties of a tensor's source chunks and target regions that decide how it is cut.
struct CutShape {
  uint64_t element = 1;  // bytes, the maximum over the stored, the metadata's and the output dtype
  bool transformed = false;
  bool strided = false;    // a chunk is not row-major
  bool converted = false;  // a stored dtype is not the metadata's
  bool cast = false;       // the output's dtype is not
  uint64_t growth = 1;     // max bytes per stored byte after conversion
  uint64_t recast = 1;     // max output bytes per byte of the metadata's dtype
  uint64_t collected = 0;  // bytes of the largest streamed record that must be held as a whole because its strides are not row-major
  int fastest = -1;        // dim along which a column-major chunk is contiguous; -1: all chunks are row-major
  bool items = false;      // its regions are items
  uint64_t written = 0;    // bytes of its regions, or of their items
  uint64_t chunk = 0;      // bytes of the largest chunk
  // Extents on each dim of boxes with elements.
  std::vector<int64_t> min_chunk, min_region, max_region;
};

// The steps of a tensor's grid of units along each dim. Its arguments must outlive it.
class UnitSteps {
 public:
  UnitSteps(Dims dims, const CutShape& shape, const UnitOptions& options) : dims_(dims), shape_(shape), options_(options) {}

  // The steps of a band. If the runs of a band would be short on either side (columns over many ranks, a column-major chunk), those of a
  // block: two dims ranged.
  std::vector<int64_t> steps() const;

  // --- used separately for derived tensors
  // A unit that is a band: leading dims fixed, one dim ranged, the rest full.
  // Returns the ranged dim; if all are full, the number of dims.
  size_t band(std::vector<int64_t>& steps) const;
  // If `step` indices of `dim` give short runs in the boxes of one side, whose smallest extents are `min`, returns the first dim after
  // `dim` on which these boxes are partial. Otherwise returns the number of dims.
  size_t short_runs(const std::vector<int64_t>& min, size_t dim, int64_t step) const;
  // `rows` ranges along the source's direction, `columns` along the output's: columns long enough for a good write, the rest of the unit in
  // rows.
  std::vector<int64_t> block(size_t rows, size_t columns, uint64_t unit_bytes) const;
  // The step of dim `d`, rounded to a multiple of `inner` unless the unit would be too large.
  int64_t in_whole(const std::vector<int64_t>& steps, size_t d, int64_t inner) const;

 private:
  const Dims dims_;
  const CutShape& shape_;
  const UnitOptions& options_;
};

std::vector<int64_t> UnitSteps::steps() const {
  std::vector<int64_t> steps;
  const size_t dim = band(steps);
  // A tensor that is one unit has more than half a unit: smaller ones go into batches.
  if (dim == dims_.size()) return steps;
  if (shape_.fastest >= 0) return block(static_cast<size_t>(shape_.fastest), dims_.size() - 1, 4 * options_.unit_bytes);
  const size_t cut = std::min(short_runs(shape_.min_chunk, dim, steps[dim]), short_runs(shape_.min_region, dim, steps[dim]));
  if (cut < dims_.size()) return block(dim, cut, options_.unit_bytes);
  // Regions that fit into a unit are not cut: an item that lies within one unit takes one write.
  const int64_t region = shape_.max_region[dim];
  if (region > 0 && region <= steps[dim]) steps[dim] -= steps[dim] % region;
  return steps;
}

size_t UnitSteps::band(std::vector<int64_t>& steps) const {
  steps.assign(dims_.size(), 1);
  uint64_t row = shape_.element;  // bytes of one index of `dim`, all later dims full
  size_t dim = dims_.size();
  while (dim > 0 && row * static_cast<uint64_t>(dims_[dim - 1]) <= options_.unit_bytes) {
    --dim;
    row *= static_cast<uint64_t>(dims_[dim]);
    steps[dim] = dims_[dim];
  }
  if (dim == 0) return dims_.size();
  --dim;
  steps[dim] = std::clamp<int64_t>(static_cast<int64_t>(options_.unit_bytes / row), 1, dims_[dim]);
  return dim;
}

size_t UnitSteps::short_runs(const std::vector<int64_t>& min, size_t dim, int64_t step) const {
  uint64_t run = shape_.element * static_cast<uint64_t>(step);
  size_t cut = dims_.size();
  for (size_t d = dims_.size(); d-- > dim + 1;) {
    run *= static_cast<uint64_t>(std::max<int64_t>(min[d], 1));
    if (min[d] < dims_[d]) cut = d;
  }
  return run >= options_.min_run ? dims_.size() : cut;
}

std::vector<int64_t> UnitSteps::block(size_t rows, size_t columns, uint64_t unit_bytes) const {
  std::vector<int64_t> steps(dims_.size(), 1);
  uint64_t column = shape_.element;
  for (size_t d = columns + 1; d < dims_.size(); ++d) {
    steps[d] = dims_[d];
    column *= static_cast<uint64_t>(dims_[d]);
  }
  const auto fit = [](uint64_t bytes, uint64_t each, int64_t max) {
    return std::clamp<int64_t>(static_cast<int64_t>(bytes / std::max<uint64_t>(each, 1)), 1, max);
  };
  steps[columns] = fit(std::max(options_.min_run, column), column, dims_[columns]);
  steps[rows] = fit(unit_bytes, column * static_cast<uint64_t>(steps[columns]), dims_[rows]);
  return steps;
}

int64_t UnitSteps::in_whole(const std::vector<int64_t>& steps, size_t d, int64_t inner) const {
  if (steps[d] == dims_[d]) return steps[d];
  if (steps[d] > inner) return steps[d] - steps[d] % inner;
  uint64_t unit = shape_.element;
  for (size_t other = 0; other < dims_.size(); ++other)
    if (other != d) unit *= static_cast<uint64_t>(steps[other]);
  inner = std::min(inner, dims_[d]);
  return unit * static_cast<uint64_t>(inner) <= options_.plane_bytes ? inner : steps[d];
}

// Units that are larger than a tensor's chunks make no larger requests, only more of them are under way.
UnitOptions options_for(const CutShape& s, UnitOptions options) {
  options.unit_bytes = std::clamp(s.chunk, std::min(UnitOptions().unit_bytes, options.unit_bytes), options.unit_bytes);
  return options;
}

// Examines the chunks and regions of a tensor before it is cut, and decides how each chunk's CRC is checked.
class Look {
 public:
  Look(Plan& plan, const SourceFacts& source, bool verify)
      : plan_(plan), catalog_(source.catalog), resolved_(source.resolved), verify_(verify) {
    plan_.checks.assign(catalog_.items.size(), CrcCheck::kUnchecked);
  }

  CutShape at(uint32_t index, const Tensor& t) {
    const Dims dims = catalog_.dims(t);
    CutShape s{.element = bytes_of(t.dtype)};
    s.min_chunk = s.min_region = {dims.begin(), dims.end()};
    s.max_region.assign(dims.size(), 0);
    const PlanTensor& p = plan_.tensors[index];
    bool noted = false;
    for (uint32_t c = 0; c < t.chunk_count; ++c)
      if (volume(catalog_.box(t, c).sizes) > 0 && source_of({catalog_, resolved_}, catalog_.item_of(t, c)).transforms != 0)
        s.transformed = true;
    for (uint32_t r = p.first_region; r < p.first_region + p.region_count; ++r) {
      const DType dtype = plan_.regions[r].dtype;
      s.element = std::max(s.element, bytes_of(dtype));
      s.cast = s.cast || dtype != t.dtype;
      s.recast = std::max(s.recast, (bytes_of(dtype) + bytes_of(t.dtype) - 1) / bytes_of(t.dtype));
      look_at_region(plan_.regions[r], s);
    }
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      const BoxView box = catalog_.box(t, c);
      const uint64_t elements = volume(box.sizes);
      if (elements == 0) continue;
      const ItemId item = catalog_.item_of(t, c);
      const ItemInfo& info = resolved_.items[item];
      s.element = std::max(s.element, bytes_of(info.dtype));
      s.chunk = std::max(s.chunk, elements * bytes_of(info.dtype));
      if (info.dtype != t.dtype && !std::exchange(noted, true)) note_conversion(t, item, info.dtype);
      for (size_t d = 0; d < dims.size(); ++d) s.min_chunk[d] = std::min(s.min_chunk[d], box.sizes[d]);
      s.converted = s.converted || info.dtype != t.dtype;
      s.growth = std::max(s.growth, (bytes_of(t.dtype) + bytes_of(info.dtype) - 1) / bytes_of(info.dtype));
      const bool is_view = resolved_.views.is_view(item);
      s.strided = s.strided || info.strides_at != 0 || is_view;
      if (s.transformed && info.strides_at != 0) s.collected = std::max(s.collected, info.record_bytes);
      if (info.strides_at != 0) s.fastest = std::max(s.fastest, fastest_dim(info, box.sizes));
      if (catalog_.items[item].file == kNone) continue;
      if (s.transformed && !resolved_.views.any()) plan_.bytes_to_read += source_of({catalog_, resolved_}, item).length;
      else if (!s.transformed) plan_.bytes_to_read += elements * bytes_of(info.dtype);
      if (!resolved_.views.any()) check(item, info, elements, s.transformed);
    }
    return s;
  }

 private:
  void look_at_region(const Region& region, CutShape& s) const {
    const Dims sizes = plan_.box(region).sizes;
    const uint64_t bytes = volume(sizes) * bytes_of(region.dtype);
    s.element = std::max(s.element, bytes_of(region.dtype));
    s.items = s.items || region.is_item();
    s.written += region.head + bytes + region.tail;
    if (bytes == 0) return;
    for (size_t d = 0; d < sizes.size(); ++d) {
      s.min_region[d] = std::min(s.min_region[d], sizes[d]);
      s.max_region[d] = std::max(s.max_region[d], sizes[d]);
    }
  }

  // dcp.load converts to the metadata's dtype silently; dcpctl reports it.
  void note_conversion(const Tensor& t, ItemId item, DType stored) {
    const std::string from(facts_of(stored).name), to(facts_of(t.dtype).name);
    if (!convertible(stored, t.dtype)) fail(ProblemId::dtype_not_convertible, catalog_.place_of(item, catalog_.key(t)), from, to);
    plan_.converted.push_back({std::string(catalog_.key(t)), "stored as " + from + ", the metadata says " + to});
  }

  void check(ItemId item, const ItemInfo& info, uint64_t elements, bool streamed) {
    if (!info.has_crc && info.record_bytes > 0) ++plan_.unchecked_records;
    if (!verify_ || !info.has_crc || info.record_bytes == 0) return;
    const bool exact = info.strides_at == 0 && info.record_bytes == elements * bytes_of(info.dtype);
    // Several keys may be made from one tensor, whose units then see its bytes several times.
    if (plan_.checks[item] == CrcCheck::kSeparatePass) return;
    const bool is_seen = plan_.checks[item] == CrcCheck::kFromUnits;
    // A stream sees all bytes of a record from front to back, whatever the strides.
    const bool from_units = (exact || streamed) && !is_seen;
    // Tensors of a torch.save file may share a record: one pass over it is enough.
    if (!from_units && catalog_.traits().in_torch_files && !passed_.insert({catalog_.items[item].file, info.record}).second) return;
    plan_.checks[item] = from_units ? CrcCheck::kFromUnits : CrcCheck::kSeparatePass;
    if (!from_units)
      plan_.records.push_back(
          {.offset = info.record, .bytes = info.record_bytes, .item = item, .crc = info.crc, .has_crc = true, .is_data = true});
  }

  // The dim whose neighbours are neighbours in the storage; -1 if that is the last dim anyway, where row order is good order.
  int fastest_dim(const ItemInfo& info, Dims sizes) const {
    const int64_t* strides = resolved_.strides.data() + info.strides_at + 1;
    int fastest = -1;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] > 1 && (fastest < 0 || strides[d] < strides[fastest])) fastest = static_cast<int>(d);
    return fastest == static_cast<int>(sizes.size()) - 1 ? -1 : fastest;
  }

  Plan& plan_;
  const Catalog& catalog_;
  const Resolved& resolved_;
  bool verify_;
  std::set<std::pair<uint32_t, uint64_t>> passed_;  // records of torch.save files that have a pass: file, place
};

class Cutter {
 public:
  Cutter(Plan& plan, const SourceFacts& source, const UnitOptions& options)
      : plan_(plan),
        catalog_(source.catalog),
        resolved_(source.resolved),
        options_(options),
        look_(plan, source, options.verify),
        views_(plan, source, options) {}

  void run() {
    for (uint32_t c = 0; c < plan_.copies.size(); ++c) {
      const CopyRange& copy = plan_.copies[c];
      add({.kind = Group::Kind::kCopy, .first = c, .units = copy.packed != 0 ? 1 : passes(copy.bytes)});
      plan_.bytes_to_read += copy.packed != 0 ? copy.packed : copy.bytes;
      need({.source = kPassBytes, .decoder = copy.packed != 0 ? kPassBytes : 0});
    }
    for (uint32_t t = 0; t < plan_.tensors.size(); ++t) tensor(t);
    end_batch();
    scatter_records();
    if (is_derived()) views_.finish();
    check_records();
  }

 private:
  static constexpr uint64_t kFrameBytes = 8 * 1024;  // of an item: 1 KiB, and 3 KiB of sizes and strides of 64 dims
  static uint64_t passes(uint64_t bytes) { return (bytes + kPassBytes - 1) / kPassBytes; }
  // The sizes of a worker's buffers, and of what decoding takes in addition. Buffers never shrink, so each counts with its largest use.
  struct Buffers {
    uint64_t assembled = 0, source = 0, converted = 0, cast = 0, packed = 0, dense = 0, item = 0, gathered = 0, decoder = 0;
  };
  void need(const Buffers& b) {
    plan_.worker_bytes = 0;
    for (uint64_t Buffers::* one : {&Buffers::assembled, &Buffers::source, &Buffers::converted, &Buffers::cast, &Buffers::packed,
                                    &Buffers::dense, &Buffers::item, &Buffers::gathered, &Buffers::decoder}) {
      max_.*one = std::max(max_.*one, b.*one);
      plan_.worker_bytes += max_.*one;
    }
  }
  void add(Group g) {
    if (g.units == 0) return;
    g.first_unit = plan_.units;
    plan_.units += g.units;
    plan_.groups.push_back(g);
  }

  // Records that follow each other closely are read together.
  void check_records() {
    if (options_.unit_bytes >= kPassBytes) plan_.check_bytes = kPassBytes;
    std::vector<ItemRecord>& records = plan_.records;
    const auto place = [&](const ItemRecord& r) {
      const Item item = catalog_.item_of(r);
      return std::tuple(item.file, item.transforms == 0 ? 0 : item.offset + 1, r.offset, r.bytes, r.item);
    };
    if (!std::ranges::is_sorted(records, {}, place)) std::ranges::sort(records, {}, place);
    for (uint32_t first = 0; first < records.size();) {
      const Item item = catalog_.item_of(records[first]);
      const bool decoded = item.transforms != 0;
      const uint64_t begin = records[first].offset;
      uint64_t end = begin + records[first].bytes;
      uint32_t next = first + 1;
      for (; next < records.size(); ++next) {
        const ItemRecord& r = records[next];
        const Item other = catalog_.item_of(r);
        if (decoded ? !(other == item) : other.file != item.file || other.transforms != 0) break;
        if (r.offset < end || (!decoded && r.offset - end > options_.pass_gap)) break;
        end = r.offset + r.bytes;
      }
      const uint64_t bytes = decoded ? item.length : end - begin;
      add({.kind = Group::Kind::kCheck, .first = first, .count = next - first, .units = decoded ? 1 : passes(bytes)});
      plan_.bytes_to_read += bytes;
      if (decoded) need({.decoder = kPassBytes});
      else need({.source = plan_.check_bytes});
      first = next;
    }
  }

  void tensor(uint32_t index) {
    const Tensor& t = catalog_.tensors[plan_.tensors[index].id];
    const Dims dims = catalog_.dims(t);
    const CutShape s = look_.at(index, t);
    const uint64_t elements = volume(dims);
    plan_.elements += elements;
    if (elements == 0 && !s.items) return;
    if (s.transformed && is_derived()) return scattered(index, t, s);
    if (s.transformed) {
      end_batch();
      add({.kind = Group::Kind::kStream, .first = index, .units = t.chunk_count});
      const uint64_t max = std::max(kPassBytes, s.collected);
      const uint64_t out = kPassBytes * s.recast;
      need({.assembled = kPassBytes,
            .source = max,
            .converted = s.converted ? max * s.growth : 0,
            .cast = s.cast ? out : 0,
            .packed = out,
            .dense = s.collected,
            .item = s.items ? out + kFrameBytes : 0,
            .decoder = kPassBytes});
      return;
    }
    if (elements * s.element <= options_.unit_bytes / 2) {
      if (is_derived()) views_.add(t, {dims.begin(), dims.end()});
      need(buffers(elements * s.element, s));
      return batch(index, elements * s.element, s.items ? s.written : 0);
    }
    end_batch();
    const std::vector<int64_t> steps = is_derived() ? derived_steps(t, dims, s) : UnitSteps(dims, s, options_for(s, options_)).steps();
    if (is_derived()) views_.add(t, steps);
    uint64_t units = 1, box = s.element;
    for (size_t d = 0; d < dims.size(); ++d) {
      units *= static_cast<uint64_t>((dims[d] + steps[d] - 1) / steps[d]);
      box *= static_cast<uint64_t>(steps[d]);
    }
    const uint64_t at = plan_.numbers.size();
    plan_.numbers.insert(plan_.numbers.end(), steps.begin(), steps.end());
    add({.kind = Group::Kind::kGrid, .first = index, .steps_at = at, .units = units});
    need(buffers(box, s));
  }

  // Its chunks are scattered together with others of the same records.
  void scattered(uint32_t index, const Tensor& t, const CutShape& s) {
    end_batch();
    views_.add_decoded(t);
    for (uint32_t c = 0; c < t.chunk_count; ++c) plan_.scattered.push_back({.tensor = index, .chunk = c});
    const uint64_t part = std::min(held_at_once(), catalog_.elements(t) * bytes_of(t.dtype)), box = part * s.recast;
    need({.assembled = part, .cast = s.cast ? box : 0, .packed = box, .item = s.items ? box + kFrameBytes : 0, .decoder = kPassBytes});
  }

  // Sorts chunks so that those served by one decoding are together.
  void scatter_records() {
    std::vector<Scattered>& all = plan_.scattered;
    const auto item_of = [&](const Scattered& s) { return catalog_.item_of(tensor_of(s), s.chunk); };
    const auto decoded = [&](const Scattered& s) {
      const ItemId item = item_of(s);
      const ItemInfo& i = resolved_.items[item];
      return std::tuple(resolved_.views.record[item], i.dtype, i.swap, i.conj, i.neg, tensor_of(s).dtype);
    };
    std::ranges::stable_sort(all, {}, decoded);
    for (uint32_t first = 0, end = 0; first < all.size(); first = end) {
      const auto what = decoded(all[first]);
      while (end < all.size() && decoded(all[end]) == what) ++end;
      const ItemId item = item_of(all[first]);
      const ItemInfo& info = resolved_.items[item];
      uint64_t window = std::min(info.record_bytes, held_at_once());
      for (uint32_t n = first; n < end; ++n)
        if (!nests(all[n])) window = info.record_bytes;
      add({.kind = Group::Kind::kScatter, .first = first, .count = end - first, .steps_at = plan_.numbers.size(), .units = 1});
      plan_.numbers.insert(plan_.numbers.end(), {static_cast<int64_t>(window), static_cast<int64_t>(held_at_once())});
      const uint64_t to = bytes_of(tensor_of(all[first]).dtype), from = bytes_of(info.dtype);
      need({.source = window, .converted = info.dtype == tensor_of(all[first]).dtype ? 0 : window / from * to});
      if (catalog_.items[item].file != kNone) plan_.bytes_to_read += source_of({catalog_, resolved_}, item).length;
    }
  }
  uint64_t held_at_once() const { return std::max<uint64_t>(options_.plane_bytes, 16); }  // at least one element
  const Tensor& tensor_of(const Scattered& s) const { return catalog_.tensors[plan_.tensors[s.tensor].id]; }

  // Whether each element of the record is seen once, so that a part of the record fills a part of the view.
  bool nests(const Scattered& s) const {
    uint64_t first = 0;
    bool once = false;
    const std::vector<ViewAxis> axes = axes_of({catalog_, resolved_}, tensor_of(s), s.chunk, first);
    positions_of(first, axes, once);
    return once;
  }

  // A span of a strided source may hold more than the bytes used: up to 64 KiB or, except for derived tensors, four times as much
  // (exec/pieces.h).
  Buffers buffers(uint64_t box, const CutShape& s) const {
    const uint64_t wide = is_derived() ? std::min(box, kViewPart) : 4 * box;
    const uint64_t span = s.strided ? std::max<uint64_t>(wide, 64 * 1024) : box;
    const uint64_t converted = !s.converted ? 0 : s.strided ? std::max(wide, s.growth * 64 * 1024) : box;
    return {.assembled = box,
            .source = span,
            .converted = converted,
            .cast = s.cast ? box : 0,
            .packed = box,
            .item = s.items ? box + kFrameBytes : 0};
  }

  // --- derived tensors
  bool is_derived() const { return resolved_.views.any(); }

  // Like UnitSteps::steps(), with two differences. A unit ranges over whole inner axes of the views, so that reordering them stays inside
  // the unit (a head, whose rotary pairs become halves). And where elements cross, it ranges over all dims from the one that is fastest in
  // the source.
  std::vector<int64_t> derived_steps(const Tensor& t, Dims dims, const CutShape& s) const {
    std::vector<int64_t> inner(dims.size(), 1), steps;
    std::vector<ViewAxis> axes;
    uint64_t first = 0;
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      axes = axes_of({catalog_, resolved_}, t, c, first);
      for (const ViewAxis& a : axes) inner[a.dim] = std::max(inner[a.dim], a.step);
    }
    const UnitOptions options = options_for(s, options_);
    const UnitSteps cut(dims, s, options);
    const size_t dim = cut.band(steps);
    if (dim == dims.size()) return steps;
    if (const size_t partial = cut.short_runs(s.min_region, dim, steps[dim]); partial < dims.size())
      steps = cut.block(dim, partial, options.unit_bytes);
    for (size_t d = 0; d < dims.size(); ++d) steps[d] = cut.in_whole(steps, d, inner[d]);
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      if (views_.is_readable(t, c, steps)) continue;
      axes = axes_of({catalog_, resolved_}, t, c, first);
      const size_t fastest = std::ranges::min_element(axes, {}, &ViewAxis::stride)->dim;
      uint64_t plane = s.element;
      for (size_t d = fastest; d < dims.size(); ++d) plane *= static_cast<uint64_t>(dims[d]);
      if (plane <= options_.plane_bytes) {
        std::fill(steps.begin(), steps.begin() + static_cast<int64_t>(fastest), 1);
        std::copy(dims.begin() + static_cast<int64_t>(fastest), dims.end(), steps.begin() + static_cast<int64_t>(fastest));
      } else if (fastest + 1 < dims.size()) {
        steps = cut.block(fastest, dims.size() - 1, options_.plane_bytes);
      }
      return steps;
    }
    return steps;
  }

  // `written`: bytes of items, which may be larger than their tensors; all items of a batch are in memory before they are written.
  void batch(uint32_t index, uint64_t bytes, uint64_t written) {
    const bool full = batch_bytes_ + bytes > options_.unit_bytes || batch_written_ + written > 4 * options_.unit_bytes;
    if (batch_count_ > 0 && (full || batch_count_ == 1024)) end_batch();
    if (batch_count_ == 0) batch_first_ = index;
    // An empty tensor between two small ones stays in the batch: it has no pieces.
    batch_count_ = index - batch_first_ + 1;
    batch_bytes_ += bytes;
    batch_written_ += written;
    need({.gathered = batch_written_});
  }
  void end_batch() {
    if (batch_count_ > 0) add({.kind = Group::Kind::kBatch, .first = batch_first_, .count = batch_count_, .units = 1});
    batch_count_ = 0;
    batch_bytes_ = batch_written_ = 0;
  }

  Plan& plan_;
  const Catalog& catalog_;
  const Resolved& resolved_;
  const UnitOptions& options_;
  Buffers max_;
  Look look_;
  ViewChecks views_;  // of a derived catalog
  uint32_t batch_first_ = 0;
  uint32_t batch_count_ = 0;
  uint64_t batch_bytes_ = 0;
  uint64_t batch_written_ = 0;
};

}  // namespace

void cut_into_units(Plan& plan, const SourceFacts& source, const UnitOptions& options) { Cutter(plan, source, options).run(); }

}  // namespace dcp
