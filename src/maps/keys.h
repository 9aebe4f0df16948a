// Which lines of a map the keys of a checkpoint match, and the numbers in their names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "maps/names.h"

namespace dcp::maps {

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

// The side whose names these keys are; `are_published`: if both sides have them, the right one. Throws map_side_unclear if neither side has
// any.
Side side_of(const ModelMap& map, std::span<const std::string_view> keys, bool are_published);

}  // namespace dcp::maps
