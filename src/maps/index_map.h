// Where each element of a tensor comes from: a model map applied to one target tensor, with all names matched and all sizes known. A plain
// value between the language, which makes it, and the derived catalog (derive.h), which executes it.
//
// A block is a box of elements counted by axes: a target element and the source element that it copies have the same indices along them.
// With the indices i_a, 0 <= i_a < axes[a].size, the element lies
//   in the target at  target_at[d] + sum of i_a * axes[a].target_step over the axes with target_dim == d,  for each dim d of `shape`
//   in the source at  source_at[d] + sum of i_a * axes[a].source_step over the axes with source_dim == d,  for each of its dims
// So a product of axes is a dim whose axes have the sizes of the later ones multiplied as their steps, and a sum is an offset in *_at, with
// the whole sum's size in the steps of what stands before it. [(n (q + k)) i] = Q [(n q) i], K [(n k) i] with n = 8, q = 64, k = 16, i = 32:
//   {Q, target_at {0, 0},  source_at {0, 0}, axes {{8, 0, 80, 0, 64}, {64, 0, 1, 0, 1}, {32, 1, 1, 1, 1}}}
//   {K, target_at {64, 0}, source_at {0, 0}, axes {{8, 0, 80, 0, 16}, {16, 0, 1, 0, 1}, {32, 1, 1, 1, 1}}}
// A number in a name is an offset in target_at or source_at of the tensor that has it as an axis: blocks of their own, one for each value.
//
// What must hold (derive() checks what it can without looking at each element):
//   * target_at has one number a dim of `shape`, source_at one a dim of the source; all elements lie inside both shapes;
//   * on each side the axes of one dim nest: by descending step, each step is larger than the extent of the axes after it (the sum of
//     (size - 1) * step). Axes stand in any order; those of size 1 may be left out;
//   * each element of the target lies in exactly one block. Source elements may be taken by many blocks, or by none;
//   * a tensor with a dim of 0 has no blocks; one without dims has one block without axes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "catalog/box.h"
#include "format/dtype.h"

namespace dcp {

struct IndexAxis {
  int64_t size = 1;
  uint32_t target_dim = 0;
  int64_t target_step = 1;  // in indices of target_dim
  uint32_t source_dim = 0;
  int64_t source_step = 1;  // in indices of source_dim
  bool operator==(const IndexAxis&) const = default;
};

struct IndexBlock {
  static constexpr uint32_t kZeros = UINT32_MAX;
  uint32_t source = kZeros;  // TensorId in the source's catalog; kZeros: padding, and the source numbers are meaningless
  std::vector<int64_t> target_at;
  std::vector<int64_t> source_at;
  std::vector<IndexAxis> axes;
  bool operator==(const IndexBlock&) const = default;
};

struct IndexMap {
  std::string key;                  // of the target
  std::vector<std::string> path{};  // its components; empty: the key is the only one
  // The dtype of its elements: a source of another dtype is converted as if its stored dtype differed from the metadata's. Requested casts
  // come later and are not included.
  DType dtype{};
  bool requires_grad = false;
  std::vector<int64_t> shape;
  std::vector<IndexBlock> blocks;
  bool operator==(const IndexMap&) const = default;
};

struct Catalog;

// A tensor of a catalog as it is.
IndexMap identity(const Catalog& catalog, uint32_t tensor);

}  // namespace dcp

namespace dcp::maps {

// Composes two maps: the result takes from the sources of the first what the second takes from its targets. So a run goes from trainer to
// trainer by way of the published names, without writing the published form.

// Sources of `second` are positions in `first`; sources of the result are those of `first`. Throws map_axes_differ if the two cut a tensor
// between them into axes that do not refine each other, map_too_many.
std::vector<IndexMap> compose(std::span<const IndexMap> second, std::span<const IndexMap> first, const Limits& limits);

}  // namespace dcp::maps
