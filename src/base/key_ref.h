// A key of a state dict: whether it names a tensor or a byte item, and its number among its own kind.
#pragma once

#include <compare>
#include <cstdint>

#include "base/members.h"

namespace dcp {

struct KeyRef {
  int64_t raw = 0;  // tensor t as t, byte item b as ~b

  static constexpr KeyRef tensor_at(uint64_t number) { return {static_cast<int64_t>(number)}; }
  static constexpr KeyRef blob_at(uint64_t number) { return {~static_cast<int64_t>(number)}; }
  constexpr bool is_blob() const { return raw < 0; }
  constexpr uint32_t tensor() const { return static_cast<uint32_t>(raw); }  // only if it is a tensor
  constexpr uint32_t blob() const { return static_cast<uint32_t>(~raw); }   // only if it is a byte item
  auto operator<=>(const KeyRef&) const = default;
};
DCP_MEMBERS(KeyRef, raw);

}  // namespace dcp
