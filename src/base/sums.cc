#include "base/sums.h"

#include "base/crc_fold.h"
#include "base/text.h"

namespace dcp {
namespace {

// The whole CRC from the raw one: its register begins with all ones, which after n bytes have become ones * x^(8n), and ends inverted.
template <class Field, class W>
W finish(W raw, uint64_t total_bytes) {
  constexpr W kOnes = static_cast<W>(~W{0});
  return raw ^ Field::shift(kOnes, total_bytes) ^ kOnes;
}

// The folded bytes replace all bytes before them. Tables handle these, and the few bytes that are left.
template <class Field>
auto raw(Bytes bytes) {
  static constexpr FoldKeys kKeys = fold_keys<Field>();
  std::byte folded[kFolded];
  const size_t done = best_fold()(kKeys, bytes, folded);
  return Field::raw(bytes.subspan(done), done == 0 ? 0 : Field::raw(folded));
}

std::string crc_text(uint32_t crc) { return "CRC-32 " + hex(crc, 8); }

}  // namespace

uint32_t crc32_raw(Bytes bytes) { return raw<Crc32Field>(bytes); }
uint64_t crc64_raw(Bytes bytes) { return raw<Crc64Field>(bytes); }

Problem crc_problem(Place place, uint64_t bytes, uint32_t got, uint32_t expected) {
  return make_problem(ProblemId::crc_mismatch, std::move(place), crc_text(got) + " over " + std::to_string(bytes) + " bytes",
                      crc_text(expected));
}

uint32_t crc32_shift(uint32_t raw, uint64_t bytes_after) { return Crc32Field::shift(raw, bytes_after); }
uint32_t crc32_finish(uint32_t raw, uint64_t total_bytes) { return finish<Crc32Field>(raw, total_bytes); }
uint64_t crc64_shift(uint64_t raw, uint64_t bytes_after) { return Crc64Field::shift(raw, bytes_after); }
uint64_t crc64_finish(uint64_t raw, uint64_t total_bytes) { return finish<Crc64Field>(raw, total_bytes); }

}  // namespace dcp
