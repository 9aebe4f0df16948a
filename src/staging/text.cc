#include "staging/text.h"

#include <cstdio>
#include <iterator>
#include <string_view>

namespace dcp {

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string duration(uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns >= 1'000'000'000) return fixed(value / 1e9, 2) + " s";
  if (ns >= 1'000'000) return fixed(value / 1e6, ns >= 100'000'000 ? 0 : 1) + " ms";
  return fixed(value / 1e3, 1) + " us";
}

std::string byte_count(uint64_t bytes) {
  constexpr std::string_view kNames[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(kNames)) value /= 1024, ++unit;
  return fixed(value, 1) + " " + std::string(kNames[unit]);
}

std::string gigabytes(double rate) { return fixed(rate / 1e9, rate < 1e9 ? 3 : 2); }

}  // namespace dcp
