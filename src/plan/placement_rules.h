// The rules that determine how each tensor of an output is placed on a mesh.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "catalog/placements.h"
#include "plan/plan.h"
#include "select/select.h"

namespace dcp {

struct PlacementRule {
  std::string glob;                   // of final names; * crosses dots; or a dict of them
  std::vector<Placement> placements;  // one per mesh dim
};

// The first rule that matches a key counts. `rules` must outlive it.
class PlacementRules {
 public:
  PlacementRules(const std::vector<PlacementRule>& rules, const std::vector<Entry>& entries);

  // Those of a tensor of `rank` dims, of which it has all that they split; nullopt: no rule matches this key.
  std::optional<std::vector<Placement>> of(std::string_view key, size_t rank);

  // Throws placement_no_dim for a glob whose placements fit no tensor. A glob meant for matrices may also match vectors and scalars, but
  // one that fits nothing is a mistake. Appends the globs that match no tensor, and the tensors that lack a dim that theirs splits.
  void finish(const std::string& path, std::vector<std::string>& unmatched, std::vector<KeyNote>& replicated);

 private:
  const std::vector<PlacementRule>& rules_;
  std::vector<std::string> meant_;                      // by rule: the pattern that its glob stands for
  std::vector<bool> used_, fits_;                       // by rule; fits: some tensor has all dims that it splits
  std::map<size_t, std::vector<KeyNote>> misfits_;      // by rule: tensors that lack one
  std::unordered_map<std::string_view, size_t> exact_;  // a file may have one for each of 10^4 tensors
  std::vector<size_t> globs_;
};

}  // namespace dcp
