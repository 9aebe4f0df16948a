// Whether a name repeats that of a tensor elsewhere: what an optimizer keeps is called like what it keeps it of (m.<fqn>, <fqn>.master).
#pragma once

#include <string_view>
#include <unordered_set>

namespace dcp {

constexpr size_t kLongestName = 4096;  // of more bytes it is a made-up one, and is not looked at

class RepeatedNames {
 public:
  void add(std::string_view name) {
    if (!name.empty() && name.size() <= kLongestName) names_.insert(std::hash<std::string_view>{}(name));
  }
  // With up to three words before a name that was added, or one behind it.
  bool repeats(std::string_view name) const {
    if (name.size() > kLongestName) return false;
    for (int n = 0; n < 4 && !name.empty(); ++n) {
      if (contains(name) || contains(name.substr(0, name.rfind('.')))) return true;
      const size_t dot = name.find('.');
      name = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
    }
    return false;
  }

 private:
  bool contains(std::string_view name) const { return names_.contains(std::hash<std::string_view>{}(name)); }

  std::unordered_set<size_t> names_;  // hashes
};

}  // namespace dcp
