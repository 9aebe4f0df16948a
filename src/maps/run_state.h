// What a run keeps beside its model goes where the model goes, when a map makes another form of it. What has a parameter's shape (exp_avg,
// exp_avg_sq, masters) is moved by the line that moves the parameter; what is one value for each (step, lr) must be the same for all
// parameters that become one. What is no optimizer's stays as it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "maps/model_map.h"
#include "maps/resolve.h"
#include "maps/run_keys.h"

namespace dcp::maps {

// An object of the source under another key.
struct ObjectMap {
  std::string key;
  std::vector<std::string> path;  // its components; none: those that it has
  std::vector<BlobId> same;       // the first is copied; the others must be equal to it
  bool lists_parameters = false;  // it becomes the list of what they become
  std::optional<BlobId>
      each_of;  // a list of parameters: there is one for each that they become, which stands for the {name} of key and path
};

// A parameter that lists of them name.
struct Becomes {
  std::string key;
  std::vector<std::string> from;
};

struct RunState {
  std::vector<ObjectMap> objects;
  std::vector<Becomes> becomes;  // by their keys
};

struct RunTarget {
  const ModelMap& map;  // by which it is named
  Side side = Side::kRight;
  Unmapped unmapped = Unmapped::kError;
  std::optional<std::string> root;  // of the model; nothing: that of the source
};

// What one parameter's state is not, though another's, which becomes one with it, is: map_tied_differ.
Problem state_differs(const Catalog& catalog, KeyRef ref, std::string got, std::string_view target);

// `made` is what becomes of the model, and goes below its root; `optimized` what becomes of the parameters of an optimizer, which its sources
// are: TensorIds. What is kept of them is put into `made`.
RunState follow(const Catalog& catalog, const RunKeys& keys, const RunTarget& to, const Resolved& optimized, Resolved& made);

}  // namespace dcp::maps
