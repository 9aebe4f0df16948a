#include "base/sums.h"

#if DCPCTL_HAVE_ISAL
#include <isa-l/crc.h>
#include <isa-l/crc64.h>
#else
#include <zlib.h>
#endif

#include "base/crc_field.h"

namespace dcp {
namespace {

// The whole CRC from the raw one: its register begins with all ones, which after n bytes have become ones * x^(8n), and ends inverted.
template <class Field, class W>
W finish(W raw, uint64_t total_bytes) {
  constexpr W kOnes = static_cast<W>(~W{0});
  return raw ^ Field::shift(kOnes, total_bytes) ^ kOnes;
}

std::string hex(uint32_t crc) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "CRC-32 ";
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[(crc >> shift) & 15];
  return text;
}

}  // namespace

// Both libraries invert the register before and after, so that calls can be chained. Beginning with all ones makes it zero, and the
// result is inverted back.
uint32_t crc32_raw(Bytes bytes) {
  if (bytes.empty()) return 0;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
#if DCPCTL_HAVE_ISAL
  return ~crc32_gzip_refl(~0u, data, bytes.size());
#else
  return ~static_cast<uint32_t>(::crc32_z(0xFFFFFFFFu, data, bytes.size()));
#endif
}

uint64_t crc64_raw(Bytes bytes) {
#if DCPCTL_HAVE_ISAL
  if (bytes.empty()) return 0;
  return ~crc64_ecma_refl(~uint64_t{0}, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
#else
  return Crc64Field::raw(bytes);
#endif
}

Problem crc_problem(Place place, uint64_t bytes, uint32_t got, uint32_t expected) {
  return make_problem(ProblemId::crc_mismatch, std::move(place), hex(got) + " over " + std::to_string(bytes) + " bytes", hex(expected));
}

uint32_t crc32_shift(uint32_t raw, uint64_t bytes_after) { return Crc32Field::shift(raw, bytes_after); }
uint32_t crc32_finish(uint32_t raw, uint64_t total_bytes) { return finish<Crc32Field>(raw, total_bytes); }
uint64_t crc64_shift(uint64_t raw, uint64_t bytes_after) { return Crc64Field::shift(raw, bytes_after); }
uint64_t crc64_finish(uint64_t raw, uint64_t total_bytes) { return finish<Crc64Field>(raw, total_bytes); }

}  // namespace dcp
