#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>

#include "base/problem.h"

namespace dcp {

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

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  return text + "]";
}

std::string list_of(const std::vector<std::string>& names, size_t max) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < max; ++i) text += (i ? ", " : "") + escaped(names[i]);
  return names.size() > max ? text + " and " + std::to_string(names.size() - max) + " more" : text;
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
    if (a[i] != b[j]) return a[i] < b[j];
    ++i, ++j;
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;  // "x.01" and "x.1"
}

}  // namespace dcp
