#include "report/values_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace dcp::cmd {
namespace {

template <class T>
T load(Bytes bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

template <class T>
std::string digits(T value) {
  char text[48];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

// Floats of 16 and 8 bits are shown as the float32 that they are.
float as_float(DType dtype, Bytes bytes) {
  float value = 0;
  convert(reinterpret_cast<std::byte*>(&value), DType::float32, bytes.data(), dtype, 1);
  return value;
}

template <class T>
std::string float_text(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = digits(value);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

bool is_bits(DType dtype) { return !convertible(dtype, DType::float64); }

// Of a dtype without numbers.
uint64_t bits_of(Bytes bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), std::min<size_t>(bytes.size(), sizeof bits));
  return bits;
}

DType half_of(DType complex) {
  switch (complex) {
    case DType::complex128: return DType::float64;
    case DType::complex64: return DType::float32;
    case DType::bcomplex32: return DType::bfloat16;
    default: return DType::float16;
  }
}

std::string complex_text(DType half, Bytes bytes) {
  const std::string real = element_text(half, bytes.first(bytes_of(half))), imaginary = element_text(half, bytes.subspan(bytes_of(half)));
  return "(" + real + (imaginary.starts_with('-') ? "" : "+") + imaginary + "j)";
}

// As numpy does: rows of a dim in lines of their own, dims between them parted by empty lines.
class Printer {
 public:
  Printer(const Glance& glance, DType dtype, size_t columns) : g_(glance), rank_(glance.head.size()), columns_(columns) {
    const auto each = static_cast<size_t>(bytes_of(dtype));
    for (size_t at = 0; at < glance.elements.size(); at += each) {
      texts_.push_back(element_text(dtype, Bytes(glance.elements).subspan(at, each)));
      width_ = std::max(width_, texts_.back().size());
    }
  }

  std::string print() {
    if (rank_ > 0 && texts_.empty()) return "[]\n";
    dim(0);
    return out_ + "\n";
  }

 private:
  void dim(size_t d) {
    if (d == rank_) {
      out_ += rank_ == 0 ? texts_[at_] : std::string(width_ - texts_[at_].size(), ' ') + texts_[at_];
      ++at_;
      return;
    }
    out_ += "[";
    const bool last = d + 1 == rank_;
    const int64_t count = g_.head[d] + g_.tail[d];
    const bool cut = left_out(d);
    size_t line = out_.rfind('\n') + 1;
    const auto between = [&] {
      if (last && out_.size() - line + width_ + 3 <= columns_) {
        out_ += ", ";
      } else {
        out_ += "," + std::string(last ? 1 : rank_ - d - 1, '\n') + std::string(d + 1, ' ');
        line = out_.rfind('\n') + 1;
      }
    };
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0) between();
      if (cut && i == g_.head[d]) {
        out_ += "...";
        between();
      }
      dim(d + 1);
    }
    if (cut && g_.tail[d] == 0) {
      between();
      out_ += "...";
    }
    out_ += "]";
  }
  bool left_out(size_t d) const { return d < g_.is_cut.size() && g_.is_cut[d]; }

  const Glance& g_;
  const size_t rank_, columns_;
  std::vector<std::string> texts_;
  size_t width_ = 0, at_ = 0;
  std::string out_;
};

// JsonWriter spells a double in the fewest digits that give it back; this double has those of the float.
double spelled_as(float value) {
  const std::string text = digits(value);
  double out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

void float_json(JsonWriter& out, double value) {
  if (std::isnan(value)) out.value("NaN");
  else if (std::isinf(value)) out.value(value < 0 ? "-Infinity" : "Infinity");
  else out.value(value);
}

void element_json(JsonWriter& out, DType dtype, Bytes bytes) {
  switch (dtype) {
    case DType::float64: return float_json(out, load<double>(bytes));
    case DType::bool_: out.value(bytes[0] != std::byte{0}); return;
    case DType::int64: out.value(load<int64_t>(bytes)); return;
    case DType::int32: out.value(int64_t{load<int32_t>(bytes)}); return;
    case DType::int16: out.value(int64_t{load<int16_t>(bytes)}); return;
    case DType::int8: out.value(int64_t{load<int8_t>(bytes)}); return;
    default: break;
  }
  const DTypeKind kind = facts_of(dtype).kind;
  if (kind == DTypeKind::kComplex) {
    const DType half = half_of(dtype);
    out.begin_array();
    element_json(out, half, bytes.first(bytes_of(half)));
    element_json(out, half, bytes.subspan(bytes_of(half)));
    out.end_array();
  } else if (kind == DTypeKind::kInt || is_bits(dtype)) {
    out.value(bits_of(bytes));
  } else {
    const float value = as_float(dtype, bytes);
    float_json(out, std::isfinite(value) ? spelled_as(value) : static_cast<double>(value));
  }
}

}  // namespace

std::string element_text(DType dtype, Bytes bytes) {
  switch (dtype) {
    case DType::float64: return float_text(load<double>(bytes));
    case DType::bool_: return bytes[0] == std::byte{0} ? "False" : "True";
    case DType::int64: return digits(load<int64_t>(bytes));
    case DType::int32: return digits(load<int32_t>(bytes));
    case DType::int16: return digits(load<int16_t>(bytes));
    case DType::int8: return digits(int{load<int8_t>(bytes)});
    default: break;
  }
  const DTypeKind kind = facts_of(dtype).kind;
  if (kind == DTypeKind::kComplex) return complex_text(half_of(dtype), bytes.first(bytes_of(dtype)));
  if (kind == DTypeKind::kInt || is_bits(dtype)) return digits(bits_of(bytes.first(bytes_of(dtype))));
  return float_text(as_float(dtype, bytes));
}

std::string values_text(const Glance& glance, DType dtype, size_t columns) { return Printer(glance, dtype, columns).print(); }

void values_json(JsonWriter& out, Extraction& extraction) {
  const std::vector<int64_t>& shape = extraction.shape();
  const DType dtype = extraction.dtype();
  const auto each = static_cast<size_t>(bytes_of(dtype));
  if (volume(shape) == 0) {
    out.begin_array().end_array();
    return;
  }
  std::vector<int64_t> at(shape.size(), 0);
  extraction.each_piece([&](Bytes bytes) {
    for (size_t i = 0; i < bytes.size(); i += each) {
      for (size_t d = shape.size(); d > 0 && at[d - 1] == 0; --d) out.begin_array();
      element_json(out, dtype, bytes.subspan(i, each));
      for (size_t d = shape.size(); d-- > 0;) {
        if (++at[d] < shape[d]) break;
        at[d] = 0;
        out.end_array();
      }
    }
  });
}

}  // namespace dcp::cmd
