// The order in which people read names: "x.2" before "x.10".
#pragma once

#include <string_view>

namespace dcp {

// Compares numbers in texts by value. A total order.
bool natural_less(std::string_view a, std::string_view b);

struct NaturalLess {
  bool operator()(std::string_view a, std::string_view b) const { return natural_less(a, b); }
};

}  // namespace dcp
