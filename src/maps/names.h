// Names with numbers in them. Each run of digits of a key is one number, so that a key fits a name in one way or in none, and names can be
// told apart without a key: by what stands between their numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "maps/model_map.h"

namespace dcp::maps {

// A key taken apart: its text with a 0 for each run of digits, and the runs.
struct Key {
  std::string form;
  std::vector<std::string_view> numbers;
};
Key key_of(std::string_view key);

struct Pattern {
  struct Number {
    std::string digits;               // of a number that the name spells; empty: an index
    const NamePart* index = nullptr;  // in the map
  };
  std::string form;
  std::vector<Number> numbers;
  std::string before_rest;
  bool is_rest = false;  // {*} follows `before_rest`
};

// With one value of each of the map's variables.
Pattern pattern_of(const ModelMap& map, const Name& name, const std::vector<uint32_t>& values);

// True if the runs of a key of the same form are the pattern's; then `found` has the number at each index, in order. A number that no one
// writes, such as 007, is no index.
bool fits(const Pattern& pattern, const Key& key, std::vector<uint64_t>& found);

// True if there could be a key that fits both, whatever sizes are. {l} and {m+l} have none in common.
bool overlap(const Pattern& a, const Pattern& b);

}  // namespace dcp::maps
