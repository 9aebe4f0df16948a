// The size of a tensor's units on each dim.
#pragma once

#include <cstdint>
#include <vector>

#include "catalog/box.h"
#include "plan/units.h"

namespace dcp {

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

}  // namespace dcp
