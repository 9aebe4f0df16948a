// Names with numbers in them. Each run of digits in a key is one number, so a key matches a name in at most one way, and names can be told
// apart without a key: by the text between their numbers.
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
    std::string digits;               // of a literal number in the name; empty: an index
    const NamePart* index = nullptr;  // in the map
  };
  std::string form;
  std::vector<Number> numbers;
  std::string before_rest;
  bool is_rest = false;  // {*} follows `before_rest`
};

// With one value of each of the map's variables.
Pattern pattern_of(const ModelMap& map, const Name& name, const std::vector<uint32_t>& values);

// Whether the numbers of a key of the same form match the pattern; `found` then has the number at each index, in order. A number with
// leading zeros, such as 007, is not an index.
bool fits(const Pattern& pattern, const Key& key, std::vector<uint64_t>& found);

// Whether some key could match both, for any sizes. {l} and {m+l} never overlap.
bool overlap(const Pattern& a, const Pattern& b);

}  // namespace dcp::maps
