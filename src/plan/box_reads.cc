#include "plan/box_reads.h"

#include <algorithm>
#include <numeric>
#include <ranges>
#include <set>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "kernels/kernels.h"

namespace dcp {
namespace {

struct Box {
  std::vector<int64_t> offsets, sizes;
  BoxView view() const { return {offsets, sizes}; }
};

bool cross(const Box& a, const Box& b) {
  Numbers offsets, sizes;
  return intersect(a.view(), b.view(), offsets.data(), sizes.data());
}

// What of a box is not in another, which it crosses: what is before and after that along each dim.
void cut_out(const Box& other, Box box, std::vector<Box>& left) {
  for (size_t d = 0; d < box.offsets.size(); ++d) {
    const int64_t first = box.offsets[d], last = first + box.sizes[d];
    const int64_t begin = std::max(first, other.offsets[d]), end = std::min(last, other.offsets[d] + other.sizes[d]);
    for (const auto& [from, to] : {std::pair(first, begin), {end, last}}) {
      box.offsets[d] = from, box.sizes[d] = to - from;
      if (from < to) left.push_back(box);
    }
    box.offsets[d] = begin, box.sizes[d] = end - begin;
  }
}

// Boxes that together are all of `boxes`, no two of which cross: of those that do, the later one loses what both have.
std::vector<Box> disjoint(std::vector<Box> boxes) {
  std::ranges::sort(boxes, [](const Box& a, const Box& b) { return std::tie(a.offsets, b.sizes) < std::tie(b.offsets, a.sizes); });
  std::vector<Box> out;
  std::vector<size_t> open;  // of `out`: those that may reach the next box along the first dim
  for (Box& box : boxes) {
    if (!box.offsets.empty()) std::erase_if(open, [&](size_t o) { return out[o].offsets[0] + out[o].sizes[0] <= box.offsets[0]; });
    std::vector<Box> left{std::move(box)};
    for (const size_t o : open)
      for (size_t n = 0; n < left.size();) {
        if (!cross(out[o], left[n])) {
          ++n;
          continue;
        }
        std::swap(left[n], left.back());
        const Box crossed = std::move(left.back());
        left.pop_back();
        cut_out(out[o], crossed, left);
      }
    for (Box& piece : left) {
      open.push_back(out.size());
      out.push_back(std::move(piece));
    }
  }
  return out;
}

class BoxPlanner {
 public:
  BoxPlanner(const SourceFacts& source, const UnitOptions& options, Plan& plan)
      : source_(source), catalog_(source.catalog), options_(options), plan_(plan) {
    plan_.checks.assign(catalog_.items.size(), CrcCheck::kUnchecked);
  }

  void run(std::span<const BoxRead> boxes) {
    std::vector<uint32_t> order(boxes.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, {}, [&](uint32_t n) { return std::tie(boxes[n].tensor, boxes[n].offsets, boxes[n].sizes); });
    plan_.files.resize(boxes.size());
    for (const uint32_t n : order) region(n, boxes[n]);
    for (uint32_t t = 0; t < plan_.tensors.size(); ++t) tensor(t);
    group();
    separate_passes();
  }

 private:
  // A box of one chunk that is read together.
  struct Piece {
    uint32_t file = 0;
    uint64_t offset = 0;  // of its first byte
    uint64_t bytes = 0;
    uint32_t tensor = 0;  // in plan.tensors
    uint64_t box_at = 0;  // in plan.numbers
  };

  void region(uint32_t file, const BoxRead& box) {
    const Tensor& t = catalog_.tensors[box.tensor];
    if (plan_.tensors.empty() || plan_.tensors.back().id != box.tensor)
      plan_.tensors.push_back({.id = box.tensor, .first_region = narrow<uint32_t>(plan_.regions.size())});
    ++plan_.tensors.back().region_count;
    const uint64_t bytes = volume(box.sizes) * bytes_of(t.dtype);
    plan_.regions.push_back({.box_at = add({box.offsets, box.sizes}),
                             .tensor = narrow<uint32_t>(plan_.tensors.size() - 1),
                             .file = file,
                             .dtype = t.dtype,
                             .rank = t.rank});
    plan_.files[file].bytes = bytes;
    plan_.bytes_to_write += bytes;
    plan_.tensor_bytes += bytes;
    plan_.largest_tensor = std::max(plan_.largest_tensor, bytes);
  }

  uint64_t add(const Box& box) {
    const uint64_t at = plan_.numbers.size();
    plan_.numbers.insert(plan_.numbers.end(), box.offsets.begin(), box.offsets.end());
    plan_.numbers.insert(plan_.numbers.end(), box.sizes.begin(), box.sizes.end());
    return at;
  }

  void tensor(uint32_t index) {
    const PlanTensor p = plan_.tensors[index];
    const Tensor& t = catalog_.tensors[p.id];
    if (source_.resolved.views.any()) return derived(index, t);
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      const BoxView chunk = catalog_.box(t, c);
      std::vector<Box> wanted;
      for (uint32_t r = p.first_region; r < p.first_region + p.region_count; ++r) {
        Numbers offsets, sizes;
        if (volume(chunk.sizes) > 0 && intersect(plan_.box(plan_.regions[r]), chunk, offsets.data(), sizes.data()))
          wanted.push_back({{offsets.data(), offsets.data() + t.rank}, {sizes.data(), sizes.data() + t.rank}});
      }
      if (wanted.empty()) continue;
      wanted = disjoint(std::move(wanted));
      uint64_t elements = 0;
      for (const Box& box : wanted) elements += volume(box.sizes);
      plan_.elements += elements;
      check(t, c, elements);
      for (const Box& box : wanted) cut(index, t, c, box);
    }
  }

  // Chunks that are views may interleave, so the tensor is cut as a whole.
  void derived(uint32_t index, const Tensor& t) {
    const PlanTensor& p = plan_.tensors[index];
    std::vector<Box> wanted;
    for (uint32_t r = p.first_region; r < p.first_region + p.region_count; ++r) {
      const BoxView box = plan_.box(plan_.regions[r]);
      if (volume(box.sizes) > 0) wanted.push_back({{box.offsets.begin(), box.offsets.end()}, {box.sizes.begin(), box.sizes.end()}});
    }
    for (const Box& box : disjoint(std::move(wanted))) {
      plan_.elements += volume(box.sizes);
      Numbers offsets, sizes;
      uint32_t first = kNone;
      for (uint32_t c = 0; c < t.chunk_count; ++c) {
        if (!intersect(box.view(), catalog_.box(t, c), offsets.data(), sizes.data())) continue;
        if (catalog_.items[catalog_.item_of(t, c)].file == kNone) continue;  // zeros
        first = std::min(first, c);
        plan_.unchecked_records += source_.resolved.items[catalog_.item_of(t, c)].record_bytes > 0 ? 1 : 0;
      }
      cut(index, t, first == kNone ? 0 : first, box);
    }
  }

  // --- how the chunk's CRC is checked, of which `elements` are read
  void check(const Tensor& t, uint32_t chunk, uint64_t elements) {
    const ItemId item = catalog_.item_of(t, chunk);
    const ItemInfo& info = source_.resolved.items[item];
    const Dims sizes = catalog_.box(t, chunk).sizes;
    if (info.record_bytes == 0) return;
    if (info.has_crc && options_.verify && elements == volume(sizes)) {
      if (is_whole_record(info, sizes)) {
        plan_.checks[item] = CrcCheck::kFromUnits;
        return;
      }
      // Tensors of a torch.save file may share a record: one pass over it is enough.
      plan_.checks[item] = CrcCheck::kSeparatePass;
      if (passed_.insert({catalog_.items[item].file, info.record}).second)
        plan_.records.push_back(
            {.offset = info.record, .bytes = info.record_bytes, .item = item, .crc = info.crc, .has_crc = true, .is_data = true});
      return;
    }
    ++plan_.unchecked_records;
  }

  // Whether the chunk's elements are those of the record, each once, whatever their order.
  bool is_whole_record(const ItemInfo& info, Dims sizes) const {
    if (info.record_bytes != volume(sizes) * bytes_of(info.dtype)) return false;
    if (info.strides_at == 0) return true;
    const int64_t* stored = source_.resolved.strides.data() + info.strides_at;
    int64_t run = 1;
    for (const size_t d : slowest_first(info, sizes) | std::views::reverse) {
      if (sizes[d] == 1) continue;
      if (stored[1 + d] != run) return false;
      run *= sizes[d];
    }
    return stored[0] == 0;
  }

  // Its dims in the order of the record.
  std::vector<size_t> slowest_first(const ItemInfo& info, Dims sizes) const {
    std::vector<size_t> dims(sizes.size());
    std::iota(dims.begin(), dims.end(), size_t{0});
    if (info.strides_at != 0) {
      const int64_t* strides = source_.resolved.strides.data() + info.strides_at + 1;
      std::ranges::stable_sort(dims, [&](size_t a, size_t b) { return strides[a] > strides[b]; });
    }
    return dims;
  }

  // --- pieces of at most a unit: of the slowest dims one index each, then a range of one dim, then all of the others
  void cut(uint32_t index, const Tensor& t, uint32_t chunk, const Box& box) {
    const ItemId item = catalog_.item_of(t, chunk);
    const ItemInfo& info = source_.resolved.items[item];
    if (!convertible(info.dtype, t.dtype))
      fail(ProblemId::dtype_not_convertible, catalog_.place_of(item, catalog_.key(t)), std::string(facts_of(info.dtype).name),
           std::string(facts_of(t.dtype).name));
    const uint64_t element = std::max(bytes_of(t.dtype), bytes_of(info.dtype));
    std::vector<size_t> dims(box.sizes.size());
    if (source_.resolved.views.any()) std::iota(dims.begin(), dims.end(), size_t{0});
    else dims = slowest_first(info, box.sizes);
    std::vector<int64_t> steps = box.sizes;
    uint64_t row = element;
    size_t whole = dims.size();
    while (whole > 0 && row * static_cast<uint64_t>(box.sizes[dims[whole - 1]]) <= options_.unit_bytes)
      row *= static_cast<uint64_t>(box.sizes[dims[--whole]]);
    if (whole > 0) {
      const size_t ranged = dims[whole - 1];
      steps[ranged] = std::clamp<int64_t>(static_cast<int64_t>(options_.unit_bytes / row), 1, box.sizes[ranged]);
      for (size_t i = 0; i + 1 < whole; ++i) steps[dims[i]] = 1;
    }
    std::vector<int64_t> at = box.offsets;
    for (bool more = true; more;) {
      Box piece{at, steps};
      for (size_t d = 0; d < at.size(); ++d) piece.sizes[d] = std::min(steps[d], box.offsets[d] + box.sizes[d] - at[d]);
      add_piece(index, t, chunk, piece);
      more = false;
      for (size_t i = whole; i-- > 0 && !more;) {
        const size_t d = dims[i];
        at[d] += steps[d];
        more = at[d] < box.offsets[d] + box.sizes[d];
        if (!more) at[d] = box.offsets[d];
      }
    }
  }

  void add_piece(uint32_t index, const Tensor& t, uint32_t chunk, const Box& box) {
    const ItemId item = catalog_.item_of(t, chunk);
    const ItemInfo& info = source_.resolved.items[item];
    const BoxView whole = catalog_.box(t, chunk);
    Numbers strides = row_major(whole.sizes);
    uint64_t first = 0;
    const bool is_view = source_.resolved.views.any();
    if (is_view) strides.fill(0);  // about where it begins will do
    if (info.strides_at != 0 && !is_view) {
      const int64_t* stored = source_.resolved.strides.data() + info.strides_at;
      first = static_cast<uint64_t>(stored[0]);
      std::copy_n(stored + 1, t.rank, strides.begin());
    }
    for (size_t d = 0; d < t.rank; ++d) first += static_cast<uint64_t>((box.offsets[d] - whole.offsets[d]) * strides[d]);
    const uint64_t elements = volume(box.sizes);
    pieces_.push_back({.file = catalog_.items[item].file,
                       .offset = info.record + first * bytes_of(info.dtype),
                       .bytes = elements * bytes_of(info.dtype),
                       .tensor = index,
                       .box_at = add(box)});
    plan_.bytes_to_read += pieces_.back().bytes;
    const uint64_t held = elements * std::max(bytes_of(t.dtype), bytes_of(info.dtype));
    // A span of a strided source may hold more than the bytes used, up to four times (exec/pieces.h).
    need_ = std::max(need_, (info.strides_at != 0 || is_view ? std::max<uint64_t>(4 * held, 64 * 1024) : held) + 3 * held);
  }

  // Pieces that follow each other closely in a file are one unit.
  void group() {
    std::ranges::sort(pieces_, {}, [](const Piece& p) { return std::tuple(p.file, p.offset, p.tensor); });
    uint32_t file = 0;            // of the last piece
    uint64_t end = 0, bytes = 0;  // of the unit
    for (const Piece& p : pieces_) {
      const auto part = narrow<uint32_t>(plan_.boxes.size());
      plan_.boxes.push_back({.tensor = p.tensor, .box_at = p.box_at});
      const bool joins = !plan_.groups.empty() && p.file == file && p.offset >= end && p.offset - end <= kJoinGap &&
                         bytes + p.bytes <= options_.unit_bytes;
      if (joins) {
        ++plan_.groups.back().count;
      } else {
        plan_.groups.push_back({.kind = Group::Kind::kBoxes, .first = part, .count = 1, .first_unit = plan_.units++, .units = 1});
        bytes = 0;
      }
      file = p.file;
      end = p.offset + p.bytes;
      bytes += p.bytes;
    }
    plan_.worker_bytes = need_ + 2 * options_.unit_bytes;  // what is read together
  }

  void separate_passes() {
    std::ranges::sort(plan_.records, {}, [&](const ItemRecord& r) { return std::tuple(catalog_.items[r.item].file, r.offset); });
    for (uint32_t n = 0; n < plan_.records.size(); ++n) {
      const uint64_t units = (plan_.records[n].bytes + kPassBytes - 1) / kPassBytes;
      plan_.groups.push_back({.kind = Group::Kind::kCheck, .first = n, .count = 1, .first_unit = plan_.units, .units = units});
      plan_.units += units;
      plan_.bytes_to_read += plan_.records[n].bytes;
    }
  }

  const SourceFacts& source_;
  const Catalog& catalog_;
  const UnitOptions& options_;
  Plan& plan_;
  std::vector<Piece> pieces_;
  std::set<std::pair<uint32_t, uint64_t>> passed_;  // records that have a pass: file, place
  uint64_t need_ = kCheckBytes;
};

}  // namespace

bool can_read_boxes(const SourceFacts& source, const Tensor& t) {
  for (uint32_t c = 0; c < t.chunk_count; ++c)
    if (source_of(source, source.catalog.item_of(t, c)).transforms != 0) return false;
  return true;
}

Plan plan_boxes(const SourceFacts& source, std::span<const BoxRead> boxes, const UnitOptions& options) {
  Plan plan;
  BoxPlanner(source, options, plan).run(boxes);
  return plan;
}

}  // namespace dcp
