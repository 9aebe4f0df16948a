#include "plan/placement_rules.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "select/globs.h"

namespace dcp {

PlacementRules::PlacementRules(const std::vector<PlacementRule>& rules, const std::vector<Entry>& entries)
    : rules_(rules), used_(rules.size()), fits_(rules.size()) {
  if (rules.empty()) return;
  std::vector<std::string_view> names;
  for (const Entry& e : entries) names.push_back(e.key);
  const KnownKeys known(std::move(names));
  for (const PlacementRule& r : rules) meant_.push_back(known.meant(r.glob));
  for (size_t r = 0; r < meant_.size(); ++r) {
    if (is_bare(meant_[r])) exact_.try_emplace(meant_[r], r);
    else globs_.push_back(r);
  }
}

std::optional<std::vector<Placement>> PlacementRules::of(std::string_view key, size_t rank) {
  const auto exact = exact_.find(key);
  size_t index = exact == exact_.end() ? rules_.size() : exact->second;
  const auto glob = std::ranges::find_if(globs_, [&](size_t r) { return r >= index || glob_matches(meant_[r], key); });
  if (glob != globs_.end()) index = std::min(index, *glob);
  if (index == rules_.size()) return std::nullopt;
  const PlacementRule& rule = rules_[index];
  used_[index] = true;
  std::vector<Placement> placements = fitting(rule.placements, rank);
  if (std::ranges::equal(placements, rule.placements, {}, &Placement::kind, &Placement::kind)) fits_[index] = true;
  else misfits_[index].push_back({std::string(key), rule.glob});
  return placements;
}

void PlacementRules::finish(const std::string& path, std::vector<std::string>& unmatched, std::vector<KeyNote>& replicated) {
  for (size_t r = 0; r < used_.size(); ++r)
    if (!used_[r]) unmatched.push_back(rules_[r].glob);
  std::string keys, globs;
  uint64_t count = 0;
  for (auto& [rule, misfits] : misfits_) {
    if (fits_[rule]) {
      std::ranges::move(misfits, std::back_inserter(replicated));
      continue;
    }
    globs += (globs.empty() ? "'" : ", '") + misfits.front().text + "'";
    for (const KeyNote& n : misfits)
      if (count++ < 8) keys += (keys.empty() ? "" : ", ") + shortened(n.key);
  }
  if (count > 8) keys += " and " + std::to_string(count - 8) + " more";
  if (count > 0) fail(ProblemId::placement_no_dim, {.path = path}, keys + " for " + globs);
}

}  // namespace dcp
