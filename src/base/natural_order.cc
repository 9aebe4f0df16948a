#include "base/natural_order.h"

#include <cstddef>

namespace dcp {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

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
