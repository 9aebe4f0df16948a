// Which tensors of a checkpoint each line of a map takes: all of its tensors for every value of its indexes, one branch of `either`, all or
// none of `optional`.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "maps/names.h"
#include "maps/sizes.h"

namespace dcp::maps {

// One value of a line's outer indexes, with the sources that the line takes for it.
struct Match {
  uint32_t line = 0;
  std::vector<uint64_t> outer;                 // as Line::outer
  std::vector<std::vector<uint32_t>> sources;  // per tensor: by its inner indexes, the last changing fastest
  bool is_copy = false;                        // the tensor is absent, but `same as` another one, which stands in for it
};

struct Chosen {
  std::vector<Match> matches;
  std::vector<uint32_t> variables;  // the value of each of the map's
  std::vector<bool> is_taken;       // of sources: whether a match takes it
  std::vector<const Name*> name;    // of sources: that of a line, chosen or not, which fits it: {*} then does not take it
  std::vector<Problem> problems;    // tensors that are missing, numbers beyond their range
};

struct ChooseQuery {
  const ModelMap& map;
  Side from = Side::kLeft;
  const Config& config;
  const std::vector<Setting>& settings;
  const std::vector<std::string_view>& keys;
  bool may_lack = false;       // a match with no tensor present is not a match
  bool may_be_filled = false;  // nor is it a problem that a line's tensors are all missing
};
// Adds to `sizes` what names tell. Throws map_size_unknown, map_index_gap, map_too_many.
Chosen choose(const ChooseQuery& query, Sizes& sizes, const Limits& limits);

// The indexes of a tensor that are not its line's outer ones.
std::vector<Word> inner_of(const Line& line, const LineTensor& tensor);

// The numbers of a line's indexes, as the name of one tensor has them: `at` for those of its own (inner_of), the match for the rest.
struct IndexNumbers {
  const Line& line;
  const Match& match;
  const std::vector<Word>& inner;
  const std::vector<uint64_t>& at;
  uint64_t of(Word w) const;
};

// A name with numbers for its indexes, which `index` gives.
template <class Index>
std::string written(const ModelMap& map, const Name& name, const std::vector<uint32_t>& variables, const Values& sizes,
                    const Index& index) {
  std::string text;
  for (const NamePart& p : name.parts) {
    if (p.kind == NamePart::Kind::kText) text += p.text;
    if (p.kind == NamePart::Kind::kVariable) text += map.variables[p.variable].values[variables[p.variable]];
    if (p.kind != NamePart::Kind::kIndex) continue;
    uint64_t number = index(p.index) + p.plus;
    for (const Word w : p.after) number += sizes[w].value;
    text += std::to_string(number);
  }
  return text;
}

// Calls `visit` with each combination of numbers below `sizes`, the last changing fastest.
template <class Visit>
void for_each_value(const std::vector<uint64_t>& sizes, const Visit& visit) {
  std::vector<uint64_t> at(sizes.size());
  for (const uint64_t size : sizes)
    if (size == 0) return;
  for (;;) {
    visit(at);
    size_t i = at.size();
    while (i > 0 && ++at[i - 1] == sizes[i - 1]) at[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace dcp::maps
