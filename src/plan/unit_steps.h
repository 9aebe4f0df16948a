// How large a unit of a tensor is on each of its dims.
#pragma once

#include <cstdint>
#include <vector>

#include "catalog/box.h"
#include "plan/units.h"

namespace dcp {

// What the source chunks and the target regions of a tensor mean for its cut.
struct CutShape {
  uint64_t element = 1;  // bytes, of the largest of stored, the metadata's and output
  bool transformed = false;
  bool strided = false;    // a chunk is not row-major
  bool converted = false;  // a stored dtype is not the metadata's
  bool cast = false;       // the output's is not
  uint64_t growth = 1;     // most bytes that a stored byte becomes by that
  uint64_t recast = 1;     // most bytes that a byte of the metadata's dtype becomes in the output
  uint64_t collected = 0;  // bytes of the largest streamed record that must be held whole, as its strides are not row-major
  int fastest = -1;        // dim along which a column-major chunk is contiguous; -1: all chunks are row-major
  bool items = false;      // its regions are items
  uint64_t written = 0;    // bytes of its regions, or of their items
  // Extents on each dim of boxes with elements.
  std::vector<int64_t> min_chunk, min_region, max_region;
};

// The steps by which a grid of units goes along each dim of a tensor. Views its arguments.
class UnitSteps {
 public:
  UnitSteps(Dims dims, const CutShape& shape, const UnitOptions& options) : dims_(dims), shape_(shape), options_(options) {}

  // A band. Where the runs that a band leaves on either side would be short (columns over many ranks, a column-major chunk), a block: two
  // dims ranged.
  std::vector<int64_t> steps() const;

  // --- what derived tensors put together otherwise
  // A unit that is a band: leading dims fixed, one dim ranged, the rest full. Returns the dim that is ranged; the number of dims where all
  // are full.
  size_t band(std::vector<int64_t>& steps) const;
  // The first dim after `dim` on which the boxes of a side, whose smallest is `min`, are partial, where the run that `step` indices of `dim`
  // make in them is short; else the number of dims.
  size_t short_runs(const std::vector<int64_t>& min, size_t dim, int64_t step) const;
  // `rows` ranges along the source's direction, `columns` along the output's: long enough for a good write, the rest of the unit in rows.
  std::vector<int64_t> block(size_t rows, size_t columns, uint64_t unit_bytes) const;
  // The step of dim `d`, in whole `inner`s if a unit of that size is not too large.
  int64_t in_whole(const std::vector<int64_t>& steps, size_t d, int64_t inner) const;

 private:
  const Dims dims_;
  const CutShape& shape_;
  const UnitOptions& options_;
};

}  // namespace dcp
