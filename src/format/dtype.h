// Tensor element types, one byte each. Their properties come from dtypes.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dcp {

enum class DTypeKind : uint8_t { kFloat, kInt, kBool, kComplex, kScale, kPacked, kQuantized };

enum class DType : uint8_t {
#define DCP_DTYPE(name, bytes, kind, storage, safetensors, torch) name,
#include "format/dtypes.def"
#undef DCP_DTYPE
  kCount
};

struct DTypeFacts {
  std::string_view name;  // "float32"; `bool` without the underscore
  uint8_t bytes;          // of one storage element
  DTypeKind kind;
  std::string_view storage;      // legacy storage class or ""
  std::string_view safetensors;  // or ""; "F4" of float4_e2m1fn_x2 counts values, torch counts pairs (safetensors.h)
  uint16_t since_torch;          // 208: 2.8
};

const DTypeFacts& facts_of(DType dtype);
inline uint64_t bytes_of(DType dtype) { return facts_of(dtype).bytes; }
// The dtype of a global `torch.<name>`, by canonical names only ("float16", never "half"); nullopt: unknown.
std::optional<DType> dtype_named(std::string_view torch_name);
std::optional<DType> dtype_of_storage_class(std::string_view storage_class);
std::optional<DType> dtype_of_safetensors(std::string_view name);
// Bytes of the unit that byte order applies to: a complex element is two of them, complex32 two float16.
inline uint8_t swap_unit(DType dtype) {
  const DTypeFacts& f = facts_of(dtype);
  return f.kind == DTypeKind::kComplex ? static_cast<uint8_t>(f.bytes / 2) : f.bytes;
}

}  // namespace dcp
