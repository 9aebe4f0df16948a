#include "plan/unit_steps.h"

#include <algorithm>

namespace dcp {

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

}  // namespace dcp
