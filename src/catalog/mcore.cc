#include "catalog/mcore.h"

#include <algorithm>

#include "base/checked.h"
#include "base/text.h"

namespace dcp {
namespace {

// `saved` is (f0, f1, ..., L): dim d of `shape` is cut into f[d] pieces of l[d] = shape[d] / f[d], and a piece has L = l0 * l1 * ...
// elements. The bytes are in the order of indices (f0, f1, ..., l0, l1, ...), a row-major tensor's in that of (f0, l0, f1, l1, ...). They
// are the same if no dim is cut after one whose pieces are longer than 1.
bool same_bytes(Dims saved, Dims shape) {
  if (saved.size() != shape.size() + 1) return false;
  uint64_t piece = 1;
  bool longer = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (saved[d] == 0 || shape[d] % saved[d] != 0 || (saved[d] > 1 && longer)) return false;
    const int64_t length = shape[d] / saved[d];
    longer = longer || length > 1;
    const std::optional<uint64_t> elements = checked_mul(piece, static_cast<uint64_t>(length));
    if (!elements) return false;
    piece = *elements;
  }
  return piece == static_cast<uint64_t>(saved.back());
}

}  // namespace

std::optional<Dims> mcore_shape(const Catalog& catalog, TensorId tensor) {
  const auto it = std::ranges::lower_bound(catalog.mcore_shapes, tensor, {}, &McoreShape::tensor);
  if (it == catalog.mcore_shapes.end() || it->tensor != tensor) return std::nullopt;
  return Dims(catalog.numbers.data() + it->dims_at, it->rank);
}

Dims mcore_view(const Catalog& catalog, TensorId tensor) {
  const Tensor& t = catalog.tensors[tensor];
  const Dims saved = catalog.dims(t);
  const std::optional<Dims> shape = mcore_shape(catalog, tensor);
  if (!shape || std::ranges::equal(saved, *shape)) return saved;
  if (!same_bytes(saved, *shape))
    fail(ProblemId::mcore_shape, {.path = catalog.path, .tensor = std::string(catalog.key(t))},
         shape_text(*shape) + " saved as " + shape_text(saved));
  return *shape;
}

}  // namespace dcp
