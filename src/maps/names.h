// Names with numbers in them. Each run of digits in a key is one number, so a key matches a name in at most one way, and names can be told
// apart without a key: by the text between their numbers.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
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

// Which lines of a map the keys of a checkpoint match, and the numbers in their names.

// A name on one side of a line that keys may match.
struct Taker {
  uint32_t line = 0;
  const Name* name = nullptr;
  std::vector<Word> indexes;  // in the order of the name's numbers
  Pattern pattern;
  int64_t variable = -1;  // that occurs in the name, with value `value`
  uint32_t value = 0;
  bool counts_on = false;  // an index continues counting from a size
};

// The names of a side, by form. Refers to the map.
class Takers {
 public:
  Takers(const ModelMap& map, Side side);
  // Names that the key may match, not counting {*}.
  const std::vector<Taker>& of_form(const Key& key) const;
  const std::vector<Taker>& rests() const { return rests_; }
  const Taker* rest_of(std::string_view key) const;

 private:
  std::unordered_map<std::string, std::vector<Taker>> by_form_;
  std::vector<Taker> rests_, none_;
};

struct Fit {
  uint64_t taken = 0;        // keys that some line takes
  std::string_view untaken;  // the first that no line takes
};

// What PEFT keeps beside or around a weight: "a LoRA adapter". "": the key is none of that.
std::string_view adapter_of(std::string_view key);
// The name of its original, where PEFT keeps a module twice.
std::string original_of(const std::string& name);
constexpr std::string_view kAdapterHint = "which maps do not merge: merge it first with PEFT's merge_and_unload, or leave it out";

// How many of the keys a side of the map has names for, ignoring sizes and conditions.
Fit fit_of(const ModelMap& map, Side side, std::span<const std::string_view> keys);

// The place in ModelMap::releases of the names that a release has, such as 0.2.1. Throws map_setting for what is no release, one before all or after all.
size_t place_of_release(const ModelMap& map, std::string_view release);
// The same, of the release whose names these keys are. nullopt: some are no names of the left side, or they do not tell.
std::optional<size_t> place_of_release(const ModelMap& map, std::span<const std::string_view> keys);

// The side whose names these keys are; `are_published`: if both sides have them, the right one. Throws map_side_unclear if neither side has
// any.
Side side_of(const ModelMap& map, std::span<const std::string_view> keys, bool are_published);

}  // namespace dcp::maps
