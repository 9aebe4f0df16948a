// Moves what a run keeps beside its model along with the model when a map changes the model's form. State with a parameter's shape
// (exp_avg, exp_avg_sq, masters) is moved by the line that moves the parameter; per-parameter values (step, lr) must be equal for all
// parameters that become one. Anything that is not an optimizer's stays as it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "maps/apply_map.h"

namespace dcp::maps {

struct RunKeys;

// An object of the source under another key.
struct ObjectMap {
  std::string key;
  std::vector<std::string> path;  // its components; empty: those that it has
  std::vector<BlobId> same;       // the first is copied; the others must equal it
  bool lists_parameters = false;  // a list of parameters: it becomes the list of what they become
  std::optional<BlobId>
      each_of;  // a list of parameters: there is one for each that they become, which stands for the {name} of key and path
};

// A parameter in such a list, and what it becomes.
struct Becomes {
  std::string key;
  std::vector<std::string> from;
};

struct RunState {
  std::vector<ObjectMap> objects;
  std::vector<Becomes> becomes;  // by their keys
};

struct RunTarget {
  const ModelMap& map;  // that gives the names
  Side side = Side::kRight;
  Unmapped unmapped = Unmapped::kError;
  std::optional<std::string> root;  // of the model; nullopt: that of the source
};

// map_tied_differ: the state of two parameters that become one differs.
Problem state_differs(const Catalog& catalog, KeyRef ref, std::string got, std::string_view target);

// `made` is what the model becomes, and goes below its root; `optimized` is what the optimized parameters become, with TensorIds as
// sources. Their state is added to `made`.
RunState follow(const Catalog& catalog, const RunKeys& keys, const RunTarget& to, const Mapping& optimized, Mapping& made);

}  // namespace dcp::maps
