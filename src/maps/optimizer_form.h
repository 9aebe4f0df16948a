// The two forms in which torch's get_optimizer_state_dict gives an optimizer's state, one made from the other. NAME is a parameter's:
//   nested  optimizer / state / NAME / exp_avg     optimizer / param_groups / 0 / lr     optimizer / param_groups / 0 / params, a list of names
//   flat    optimizer / state.NAME.exp_avg         optimizer / param_groups.NAME.lr      (flatten_optimizer_state_dict)
// An optimizer's own state_dict() is the nested form with numbers for names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "items/resolve.h"
#include "maps/apply_map.h"
#include "maps/derive.h"
#include "select/select.h"

namespace dcp::maps {

enum class OptimizerForm : uint8_t { kFlat, kNested };

struct Reformed {
  uint64_t optimizers = 0, groups = 0, parameters = 0;
  uint64_t changed = 0;          // optimizers that had the other form, or numbers
  uint64_t joined = 0;           // groups of several parameters, whose values are equal: they may have been several groups
  std::vector<NewObject> lists;  // of parameters: the BlobIds that follow the catalog's
  std::vector<Tie> ties;         // tensors in the groups of parameters that become one group
};

// Gives the optimizers of a selection this form: their keys and paths, and which objects. Keys get the trainer's order, that of the paths.
// The selection's objects must be resolved with their pickles. Throws optimizer_form, and what reading a pickle throws.
Reformed reform(const SourceFacts& source, OptimizerForm form, const Limits& limits, Selection& selection);

// The list of parameters that a group has as `params`, and as `param_names`.
struct ParameterList {
  std::vector<std::string> names;
  bool are_numbers = false;  // as an optimizer's own state_dict() has them
};

// An object that is resolved with its pickle. Throws `id` for one that is no such list, and what reading a pickle throws.
ParameterList read_parameters(const SourceFacts& source, BlobId blob, ProblemId id, const Limits& limits);
// A pickle.
std::string list_of_parameters(const std::vector<std::string>& names);

}  // namespace dcp::maps
