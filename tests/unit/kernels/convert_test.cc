// Against what torch says: reference.bin, written by make_reference.py, which has its format and what it leaves out.
#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/sums.h"
#include "kernels/kernels.h"

using namespace dcp;

namespace {

using Data = std::vector<std::byte>;

constexpr size_t kBlock = 256;  // elements a CRC is taken over

class Reference {
 public:
  Reference() {
    std::ifstream file(DCPCTL_CAST_REFERENCE, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    data_.assign(as_bytes(text).begin(), as_bytes(text).end());
  }
  Bytes take(size_t bytes) {
    REQUIRE(bytes <= data_.size() - at_);
    at_ += bytes;
    return Bytes(data_).subspan(at_ - bytes, bytes);
  }
  uint32_t number() { return load_le<uint32_t>(take(4).data()); }
  std::vector<DType> dtypes() {
    std::vector<DType> all(std::to_integer<size_t>(take(1)[0]));
    for (DType& dtype : all) dtype = dtype_named(as_text(take(std::to_integer<size_t>(take(1)[0])))).value();
    return all;
  }
  bool at_end() const { return at_ == data_.size(); }

 private:
  Data data_;
  size_t at_ = 0;
};

bool is_int(DType dtype) { return facts_of(dtype).kind == DTypeKind::kInt; }
bool is_bfloat(DType dtype) { return dtype == DType::bfloat16 || dtype == DType::bcomplex32; }

uint64_t mix(uint64_t i) {
  uint64_t z = (i + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

uint64_t bulk_bits(DType dtype, uint64_t i) {
  const uint64_t word = mix(2 * i), other = mix(2 * i + 1);
  switch (dtype) {
    case DType::float64:
    case DType::complex128: return (word & 0x800FFFFFFFFFFFFF) | ((983 + other % 110) << 52);
    case DType::float32:
    case DType::complex64: return (word & 0x807FFFFF) | ((87 + other % 108) << 23);
    case DType::complex32:
    case DType::bcomplex32: return word;
    default: return bytes_of(dtype) <= 2 ? i : static_cast<uint64_t>(static_cast<int64_t>(word) >> (other % 64));
  }
}

Data bulk(DType dtype, uint64_t elements) {
  const size_t unit = swap_unit(dtype);
  Data data(elements * bytes_of(dtype));
  for (size_t i = 0; i * unit < data.size(); ++i) {
    const uint64_t bits = bulk_bits(dtype, i);
    std::memcpy(&data[i * unit], &bits, unit);
  }
  return data;
}

// make_reference.py's fitting(): floats that fit no integer of the target's width are replaced by zero bytes.
Data fitting(DType from, DType to, Data data) {
  if (!is_int(to) || is_int(from) || from == DType::bool_) return data;
  const size_t size = bytes_of(from), n = data.size() / size;
  std::vector<double> values(n);
  convert(reinterpret_cast<std::byte*>(values.data()), DType::float64, data.data(), from, n);
  const int bits = bytes_of(to) == 8 ? 64 : 32;
  for (size_t i = 0; i < n; ++i) {
    const bool fits = values[i] >= -std::ldexp(1.0, bits - 1) && values[i] < std::ldexp(1.0, bits);
    if (!fits) std::fill_n(data.begin() + static_cast<ptrdiff_t>(i * size), size, std::byte{0});
  }
  return data;
}

Data converted(DType from, DType to, const Data& data) {
  const uint64_t n = data.size() / bytes_of(from);
  Data out(n * bytes_of(to));
  const Data input = fitting(from, to, data);
  convert(out.data(), to, input.data(), from, n);
  if (swap_unit(to) != 2 || is_int(to)) return out;
  const uint16_t nan = is_bfloat(to) ? 0x7FC0 : 0x7E00, infinity = is_bfloat(to) ? 0x7F80 : 0x7C00;
  for (size_t i = 0; i < out.size(); i += 2) {
    if ((load_le<uint16_t>(&out[i]) & 0x7FFF) > infinity) store_le(&out[i], nan);
  }
  return out;
}

std::string hex(Bytes bytes) {
  std::string text;
  for (size_t i = bytes.size(); i-- > 0;) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<size_t>(bytes[i]) >> 4];
    text += kDigits[std::to_integer<size_t>(bytes[i]) & 15];
  }
  return text;
}

std::string pair_of(DType from, DType to) { return std::string(facts_of(from).name) + " to " + std::string(facts_of(to).name); }

template <class To, class From>
To one(DType to_type, DType from_type, From value) {
  To out{};
  convert(reinterpret_cast<std::byte*>(&out), to_type, reinterpret_cast<const std::byte*>(&value), from_type, 1);
  return out;
}

}  // namespace

TEST_CASE("every pair of dtypes converts as in torch") {
  Reference reference;
  const std::vector<DType> dtypes = reference.dtypes();
  CHECK(dtypes.size() == 22);
  for (const DType from : dtypes) {
    const size_t size = bytes_of(from);
    const Bytes edges = reference.take(reference.number() * size);
    const Data input(edges.begin(), edges.end());
    for (const DType to : dtypes) {
      const Data out = converted(from, to, input);
      const Bytes expected = reference.take(out.size());
      for (size_t i = 0; i < input.size() / size; ++i) {
        const size_t n = bytes_of(to);
        if (std::equal(expected.begin() + static_cast<ptrdiff_t>(i * n), expected.begin() + static_cast<ptrdiff_t>((i + 1) * n),
                       out.begin() + static_cast<ptrdiff_t>(i * n))) {
          continue;
        }
        INFO(pair_of(from, to) << " of " << hex(edges.subspan(i * size, size)));
        CHECK(hex(Bytes(out).subspan(i * n, n)) == hex(expected.subspan(i * n, n)));
      }
    }
    const Data many = bulk(from, reference.number());
    for (const DType to : dtypes) {
      const Data out = converted(from, to, many);
      const size_t block = kBlock * bytes_of(to);
      for (size_t at = 0; at < out.size(); at += block) {
        const uint32_t expected = reference.number();
        if (crc32(Bytes(out).subspan(at, std::min(block, out.size() - at))) == expected) continue;
        INFO("block " << at / block);
        FAIL_CHECK(pair_of(from, to));
      }
    }
  }
  CHECK(reference.at_end());
}

TEST_CASE("dtypes without a conversion") {
  for (size_t i = 0; i < static_cast<size_t>(DType::kCount); ++i) {
    const auto dtype = static_cast<DType>(i);
    const DTypeKind kind = facts_of(dtype).kind;
    const bool has_numbers = kind != DTypeKind::kPacked && kind != DTypeKind::kQuantized;
    CHECK(convertible(dtype, dtype));
    CHECK(convertible(dtype, DType::float32) == has_numbers);
    CHECK(convertible(DType::complex64, dtype) == has_numbers);
  }
}

TEST_CASE("the same dtype is copied bit by bit") {
  const auto signalling = uint32_t{0x7F800001};
  CHECK(one<uint32_t>(DType::float32, DType::float32, signalling) == signalling);
  CHECK(one<uint8_t>(DType::quint8, DType::quint8, uint8_t{7}) == 7);
  convert(nullptr, DType::float32, nullptr, DType::float32, 0);
  convert(nullptr, DType::complex64, nullptr, DType::float16, 0);
}

TEST_CASE("a NaN of 16 bits keeps what fits") {
  CHECK(one<uint16_t>(DType::float16, DType::float32, uint32_t{0xFFABCDEF}) == (0xFE00 | (0x2BCDEF >> 13)));
  CHECK(one<uint32_t>(DType::float32, DType::float16, uint16_t{0xFC01}) == 0xFFC02000);  // becomes quiet
  CHECK(one<uint16_t>(DType::bfloat16, DType::float32, uint32_t{0xFFABCDEF}) == 0x7FC0);
  CHECK(one<uint32_t>(DType::float32, DType::bfloat16, uint16_t{0xFF81}) == 0xFF810000);
}

TEST_CASE("floats that fit no integer") {
  const double huge = 1e300, nan = std::nan("");
  CHECK(one<int64_t>(DType::int64, DType::float64, huge) == INT64_MIN);
  CHECK(one<int64_t>(DType::int64, DType::float64, nan) == INT64_MIN);
  CHECK(one<int32_t>(DType::int32, DType::float64, -huge) == INT32_MIN);
  CHECK(one<int16_t>(DType::int16, DType::float64, huge) == 0);
  CHECK(one<int16_t>(DType::int16, DType::float64, 65537.9) == 1);
  CHECK(one<uint8_t>(DType::uint8, DType::float64, -1.5) == 255);
  CHECK(one<uint8_t>(DType::uint8, DType::float64, nan) == 0);
  CHECK(one<uint64_t>(DType::uint64, DType::float64, -1.0) == UINT64_MAX);
  CHECK(one<uint64_t>(DType::uint64, DType::float64, huge) == 0);
  CHECK(one<bool>(DType::bool_, DType::float64, nan));
}

TEST_CASE("complex numbers") {
  struct Pair {
    float real, imaginary;
  };
  CHECK(one<float>(DType::float32, DType::complex64, Pair{3, 4}) == 3);
  CHECK(one<Pair>(DType::complex64, DType::float32, 3.0F).imaginary == 0);
  CHECK(one<bool>(DType::bool_, DType::complex64, Pair{0, 4}));
  CHECK_FALSE(one<bool>(DType::bool_, DType::complex64, Pair{0, -0.0F}));

  // More than a block of them.
  std::vector<Pair> pairs(3000);
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = {0, static_cast<float>(i % 3)};
  Data flags(pairs.size());
  convert(flags.data(), DType::bool_, reinterpret_cast<const std::byte*>(pairs.data()), DType::complex64, pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) REQUIRE(std::to_integer<bool>(flags[i]) == (i % 3 != 0));
}

TEST_CASE("neither side needs alignment") {
  Data from(8 * 100 + 1), to(2 * 100 + 1);
  for (size_t i = 0; i < 100; ++i) store_le(&from[1 + 8 * i], static_cast<double>(i));
  convert(&to[1], DType::uint16, &from[1], DType::float64, 100);
  for (size_t i = 0; i < 100; ++i) REQUIRE(load_le<uint16_t>(&to[1 + 2 * i]) == i);
}
