// Bytes and a bounds-checked cursor over them. Multi-byte numbers are little-endian unless noted.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/problem.h"

namespace dcp {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

inline std::string_view as_text(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }
inline Bytes as_bytes(std::string_view s) { return {reinterpret_cast<const std::byte*>(s.data()), s.size()}; }

// Little-endian load and store at any alignment.
template <class T>
T load_le(const std::byte* p) {
  static_assert(std::is_trivially_copyable_v<T> && std::endian::native == std::endian::little);
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void store_le(std::byte* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

}  // namespace dcp
