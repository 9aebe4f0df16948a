// What a made checkpoint means, one element at a time and with no thought of speed: the reference for everything that moves bytes.
#pragma once

#include <string>

#include "catalog/made_checkpoint.h"
#include "kernels/kernels.h"

namespace dcp::test {

// Calls fn(index) for each index of a box of these sizes, last dim fastest.
template <class Fn>
void for_each_index(const Ints& sizes, Fn&& fn) {
  if (volume(sizes) == 0) return;
  Ints index(sizes.size(), 0);
  for (;;) {
    fn(index);
    size_t d = sizes.size();
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

// One element as a loader sees it: out of the storage, in the machine's byte order, conj and neg resolved, in the tensor's dtype.
inline std::string model_element(const MadeChunk& chunk, DType dtype, const Ints& index) {
  const DType stored = chunk.stored.value_or(dtype);
  const Ints strides = chunk.strides.empty() ? row_major_strides(chunk.sizes) : chunk.strides;
  uint64_t at = chunk.storage_offset;
  for (size_t d = 0; d < index.size(); ++d) at += static_cast<uint64_t>(index[d] * strides[d]);
  std::string element = chunk.storage.substr(at * bytes_of(stored), bytes_of(stored));
  const auto unit = static_cast<int64_t>(swap_unit(stored));
  if (chunk.big_endian)
    for (auto part = element.begin(); part != element.end(); part += unit) std::reverse(part, part + unit);
  auto* bytes = reinterpret_cast<std::byte*>(element.data());
  if (chunk.conj) conjugate(bytes, 1, stored);
  if (chunk.neg) negate(bytes, 1, stored);
  if (stored == dtype) return element;
  std::string converted(bytes_of(dtype), '\0');
  convert(reinterpret_cast<std::byte*>(converted.data()), dtype, bytes, stored, 1);
  return converted;
}

// The tensor's elements, row-major. Elements in no chunk stay '?'.
inline std::string model_bytes(const MadeTensor& t) {
  const uint64_t element = bytes_of(t.dtype);
  std::string out(volume(t.dims) * element, '?');
  const Ints strides = row_major_strides(t.dims);
  for (const MadeChunk& c : t.chunks) {
    for_each_index(c.sizes, [&](const Ints& index) {
      int64_t to = 0;
      for (size_t d = 0; d < index.size(); ++d) to += (c.offsets[d] + index[d]) * strides[d];
      out.replace(static_cast<uint64_t>(to) * element, element, model_element(c, t.dtype, index));
    });
  }
  return out;
}

}  // namespace dcp::test
