#include "base/utf8.h"

namespace dcp {
namespace {

// The least value that needs a sequence of this many bytes: anything lower is an overlong form.
constexpr char32_t kMin[] = {0, 0, 0x80, 0x800, 0x10000};

constexpr unsigned sequence_size(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;  // C0 and C1 could only begin overlong forms
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const unsigned size = sequence_size(lead);
  if (size == 1) return {lead, 1};
  if (size == 0 || text.size() < size) return {};
  char32_t value = lead & (0x7Fu >> size);  // the lead byte keeps 7 - size bits of the value
  for (unsigned i = 1; i < size; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0u) != 0x80u) return {};
    value = (value << 6) | (next & 0x3Fu);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kMin[size] || surrogate || value > 0x10FFFF) return {};
  return {value, size};
}

bool is_pickled_text(std::string_view text) {
  while (!text.empty()) {
    if (static_cast<unsigned char>(text[0]) < 0x80) {
      text.remove_prefix(1);
      continue;
    }
    unsigned size = first_code_point(text).size;
    if (size == 0 && text.size() >= 3 && text[0] == '\xED' && (text[1] & '\xE0') == '\xA0' && (text[2] & '\xC0') == '\x80') size = 3;
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace dcp
