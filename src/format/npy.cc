#include "format/npy.h"

#include "base/text.h"

namespace dcp {

bool is_numpy_dtype(DType dtype) {
  switch (dtype) {
    case DType::complex128:
    case DType::complex64: return true;
    default: break;
  }
  const DTypeFacts& facts = facts_of(dtype);
  if (facts.kind == DTypeKind::kFloat) return facts.bytes >= 4 || dtype == DType::float16;
  return facts.kind == DTypeKind::kInt || facts.kind == DTypeKind::kBool;
}

std::string_view npy_type(DType dtype) {
  switch (dtype) {
    case DType::float64: return "<f8";
    case DType::float32: return "<f4";
    case DType::float16: return "<f2";
    case DType::int64: return "<i8";
    case DType::int32: return "<i4";
    case DType::int16: return "<i2";
    case DType::int8: return "|i1";
    case DType::bool_: return "|b1";
    case DType::complex128: return "<c16";
    case DType::complex64: return "<c8";
    default: break;
  }
  switch (bytes_of(dtype)) {
    case 8: return "<u8";
    case 4: return "<u4";
    case 2: return "<u2";
    default: return "|u1";
  }
}

std::string npy_header(DType dtype, std::span<const int64_t> shape) {
  std::string text = "{'descr': '" + std::string(npy_type(dtype)) + "', 'fortran_order': False, 'shape': (";
  text += joined(shape, ", ");
  text += shape.size() == 1 ? ",), }" : "), }";
  constexpr size_t kBefore = 10;  // magic, version, the length of the text
  text.append(63 - (kBefore + text.size()) % 64, ' ').append("\n");
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);  // 64 dims of 19 digits take 2 KiB
  return header + text;
}

}  // namespace dcp
