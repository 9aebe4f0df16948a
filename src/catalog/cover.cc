#include "catalog/cover.h"

#include <numeric>
#include <span>

namespace dcp {
namespace {

using Chunks = std::span<const uint32_t>;

class Cover {
 public:
  Cover(const Catalog& catalog, const Tensor& tensor) : catalog_(catalog), tensor_(tensor) {}

  std::optional<CoverProblem> check() {
    std::vector<uint32_t> live;
    const Dims dims = catalog_.dims(tensor_);
    for (uint32_t c = 0; c < tensor_.chunk_count; ++c) {
      const BoxView b = box(c);
      if (volume(b.sizes) == 0) continue;
      for (size_t d = 0; d < tensor_.rank; ++d)
        if (b.offsets[d] + b.sizes[d] > dims[d])
          return CoverProblem{CoverFault::kOutside, {b.offsets.begin(), b.offsets.end()}, {b.sizes.begin(), b.sizes.end()}, c};
      live.push_back(c);
    }
    if (volume(dims) == 0) return std::nullopt;
    if (tiles(live, 0)) return std::nullopt;
    budget_ = 20'000 + uint64_t{512} * live.size();
    std::vector<int64_t> origin(tensor_.rank, 0);
    return split(origin, {dims.begin(), dims.end()}, live);
  }

 private:
  BoxView box(uint32_t c) const { return catalog_.box(tensor_, c); }

  // Checks for nested splits and grids in one pass over the sorted chunks: on dim d they fall into runs of equal interval that follow each
  // other without a gap, and each run tiles the remaining dims. False: they do not have that form (which need not be a fault).
  bool tiles(Chunks chunks, unsigned d) const {
    if (d == tensor_.rank) return chunks.size() == 1;
    int64_t next = 0;
    for (size_t i = 0; i < chunks.size();) {
      const int64_t offset = box(chunks[i]).offsets[d];
      const int64_t size = box(chunks[i]).sizes[d];
      if (offset != next) return false;
      size_t end = i + 1;
      while (end < chunks.size() && box(chunks[end]).offsets[d] == offset && box(chunks[end]).sizes[d] == size) ++end;
      if (!tiles(chunks.subspan(i, end - i), d + 1)) return false;
      next = offset + size;
      i = end;
    }
    return next == catalog_.dims(tensor_)[d];
  }

  // Checks any tiling: cuts the region at a chunk's border and checks both halves, until a region is one chunk, or belongs to none, or to
  // two.
  std::optional<CoverProblem> split(std::vector<int64_t> offsets, std::vector<int64_t> sizes, Chunks chunks) {
    if (chunks.empty()) return CoverProblem{CoverFault::kHole, offsets, sizes};
    const uint64_t looks = chunks.size() * tensor_.rank;
    if (budget_ < looks) return CoverProblem{CoverFault::kTooComplex, offsets, sizes};
    budget_ -= looks;
    const std::optional<Plane> plane = best_plane(offsets, sizes, chunks);
    if (!plane) {
      if (chunks.size() == 1) return std::nullopt;
      return CoverProblem{CoverFault::kOverlap, offsets, sizes, chunks[0], chunks[1]};
    }
    std::vector<uint32_t> low, high;
    for (uint32_t c : chunks) {
      const BoxView b = box(c);
      if (b.offsets[plane->dim] < plane->at) low.push_back(c);
      if (b.offsets[plane->dim] + b.sizes[plane->dim] > plane->at) high.push_back(c);
    }
    std::vector<int64_t> half = sizes;
    half[plane->dim] = plane->at - offsets[plane->dim];
    if (auto fault = split(offsets, half, low)) return fault;
    half[plane->dim] = sizes[plane->dim] - half[plane->dim];
    offsets[plane->dim] = plane->at;
    return split(offsets, half, high);
  }

  struct Plane {
    unsigned dim = 0;
    int64_t at = 0;
  };
  // The median border inside the region, on the dim where it cuts the fewest chunks.
  std::optional<Plane> best_plane(const std::vector<int64_t>& offsets, const std::vector<int64_t>& sizes, Chunks chunks) {
    std::optional<Plane> best;
    size_t fewest = SIZE_MAX;
    for (unsigned d = 0; d < tensor_.rank; ++d) {
      borders_.clear();
      for (uint32_t c : chunks) {
        const BoxView b = box(c);
        for (int64_t at : {b.offsets[d], b.offsets[d] + b.sizes[d]})
          if (at > offsets[d] && at < offsets[d] + sizes[d]) borders_.push_back(at);
      }
      if (borders_.empty()) continue;
      const auto middle = borders_.begin() + static_cast<int64_t>(borders_.size() / 2);
      std::nth_element(borders_.begin(), middle, borders_.end());
      const int64_t at = *middle;
      size_t cut = 0;
      for (uint32_t c : chunks) cut += box(c).offsets[d] < at && box(c).offsets[d] + box(c).sizes[d] > at;
      if (cut < fewest) fewest = cut, best = Plane{d, at};
    }
    return best;
  }

  const Catalog& catalog_;
  const Tensor& tensor_;
  // How many times a dim of a chunk may be examined. A tiling needs about log n times for each, and real ones of many dims are grids, which
  // never get here. Malicious boxes in a file of 1 MiB take less than a second.
  uint64_t budget_ = 0;
  std::vector<int64_t> borders_;
};

}  // namespace

std::optional<CoverProblem> check_cover(const Catalog& catalog, const Tensor& tensor) { return Cover(catalog, tensor).check(); }

std::string slice_text(Dims offsets, Dims sizes) {
  std::string text = "[";
  for (size_t d = 0; d < offsets.size(); ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(offsets[d]) + ":" + std::to_string(offsets[d] + sizes[d]);
  }
  return text + "]";
}

}  // namespace dcp
