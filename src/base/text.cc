#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "base/problem.h"

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

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string human_bytes(uint64_t bytes) {
  constexpr std::string_view kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(kNames)) value /= 1024, ++unit;
  return fixed(value, 1) + " " + std::string(kNames[unit]);
}

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()); at > 3;) text.insert(text.begin() + (at -= 3), ',');
  return text;
}

std::string rate(uint64_t bytes, uint64_t ns) {
  const double gb_s = static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(ns, 1));
  return gb_s < 0.1 ? fixed(gb_s * 1000, 1) + " MB/s" : fixed(gb_s, 2) + " GB/s";
}
std::string done_in(uint64_t bytes, uint64_t ns) {
  constexpr uint64_t kFew = 1 << 16;  // of which the time says nothing
  return seconds(ns) + (bytes < kFew ? "" : ", " + rate(bytes, ns));
}
std::string seconds(uint64_t ns) { return fixed(static_cast<double>(ns) / 1e9, 2) + " s"; }

std::string gigabytes(double bytes_per_second) { return fixed(bytes_per_second / 1e9, bytes_per_second < 1e9 ? 3 : 2); }

std::string duration(uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns >= 1'000'000'000) return fixed(value / 1e9, 2) + " s";
  if (ns >= 1'000'000) return fixed(value / 1e6, ns >= 100'000'000 ? 0 : 1) + " ms";
  return fixed(value / 1e3, 1) + " us";
}

std::string counted(uint64_t number, const char* one) { return grouped(number) + " " + one + (number == 1 ? "" : "s"); }

std::string hex(uint64_t number, size_t digits) {
  char text[16];
  const auto n = static_cast<size_t>(std::to_chars(text, std::end(text), number, 16).ptr - text);
  return std::string(digits > n ? digits - n : 0, '0').append(text, n);
}

std::string shape_text(std::span<const int64_t> shape) { return "[" + joined(shape, ", ") + "]"; }

std::string list_of(const std::vector<std::string>& names, size_t max) { return joined_first(names, max, escaped); }

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kMax = 5;
  const std::string text = joined(std::span(names).first(std::min(kMax, names.size())), ", ");
  return names.size() > kMax ? text + ", ... (" + std::to_string(names.size()) + " in all)" : text;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const size_t begin = text.find_first_not_of(blanks);
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

std::vector<std::string_view> split(std::string_view text, char at, std::string_view blanks) {
  std::vector<std::string_view> parts;
  for (size_t end = text.find(at); end != text.npos; end = text.find(at)) {
    parts.push_back(trimmed(text.substr(0, end), blanks));
    text.remove_prefix(end + 1);
  }
  parts.push_back(trimmed(text, blanks));
  return parts;
}

std::string lowered(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return lower;
}

bool natural_less(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const auto run = [](std::string_view s, size_t& at) {
        while (at + 1 < s.size() && s[at] == '0' && is_digit(s[at + 1])) ++at;
        const size_t begin = at;
        while (at < s.size() && is_digit(s[at])) ++at;
        return s.substr(begin, at - begin);
      };
      const std::string_view x = run(a, i), y = run(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      continue;
    }
    if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
    ++i, ++j;
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;  // "x.01" and "x.1"
}

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

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

Closest::Closest(std::string_view word) : word_(word), min_(std::max<size_t>(1, word.size() / 3) + 1) {}

void Closest::offer(std::string_view name) {
  std::string_view a = word_, b = name;
  // Keys of one model begin and end alike: common prefixes and suffixes need no edits.
  while (!a.empty() && !b.empty() && a.front() == b.front()) a.remove_prefix(1), b.remove_prefix(1);
  while (!a.empty() && !b.empty() && a.back() == b.back()) a.remove_suffix(1), b.remove_suffix(1);
  constexpr size_t kLongest = 64;  // a typo is not longer, and the time grows with its square
  const size_t longer = std::max(a.size(), b.size());
  if (longer - std::min(a.size(), b.size()) >= min_ || longer > kLongest) return;
  if (const size_t d = edit_distance(a, b); d < min_) min_ = d, best_ = name;
}

}  // namespace dcp
