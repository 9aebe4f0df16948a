#include "maps/divided.h"

#include <algorithm>
#include <string>

namespace dcp::maps {
namespace {

// Whether config.json or a setting gives it: neither a number, nor what names or shapes show.
bool is_of_model(const ModelMap& map, const Values& values, Word w) {
  using From = Known::From;
  return !map.is_index[w] && (values[w].from == From::kSizeLine || values[w].from == From::kSetting);
}

}  // namespace

void DividedAxes::check(const Match& match, std::span<const Shaped> tensors, const Values& values,
                        const std::vector<std::string_view>& keys) {
  for (const Shaped& t : tensors)
    for (const Axis& dim : t.tensor->dims)
      if (dim.kind == Axis::Kind::kProduct) check(match, t, dim, values, keys);
}

void DividedAxes::check(const Match& match, const Shaped& tensor, const Axis& dim, const Values& values,
                        const std::vector<std::string_view>& keys) {
  const std::vector<Word> words = words_of(dim);
  std::string of_model;
  for (const Word w : words)
    if (sizes_.is_global(w) && is_of_model(map_, values, w)) of_model += (of_model.empty() ? "" : ", ") + sizes_.describe(w, values, keys);
  if (of_model.empty()) return;
  const Line& line = map_.lines[match.line];
  std::vector<std::pair<uint32_t, uint32_t>> branch;
  for (const Within& w : line.within) branch.emplace_back(w.block, w.branch);
  std::vector<std::pair<Word, uint64_t>> at;
  for (size_t i = 0; i < line.outer.size(); ++i) at.emplace_back(line.outer[i], match.outer[i]);
  std::ranges::sort(at);
  for (const Word w : words) {
    if (sizes_.is_global(w) || !values[w]) continue;
    const Found here{values[w].value, match.line, tensor.source};
    const auto [it, is_new] = found_.try_emplace(Place{branch, at, w}, here);
    const Found& before = it->second;
    if (is_new || before.size == here.size) continue;
    const auto text_of = [&](const Found& f) {
      return map_.word(w) + " = " + std::to_string(f.size) + " in " + shortened(keys[f.source]) + " (line " +
             std::to_string(map_.lines[f.line].spot.line) + ")";
    };
    Problem p =
        problem_at(map_, dim.spot, ProblemId::map_size_differs, text_of(before) + " and " + text_of(here), "one size, given " + of_model);
    p.what = "one axis has two sizes in a layer";
    p.hint = "check config.json, or name the axes differently in the map";
    p.place.tensor = keys[tensor.source];
    throw Error(std::move(p));
  }
}

}  // namespace dcp::maps
