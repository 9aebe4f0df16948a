// The list of an optimizer's parameters that a group has as `params`, and as `param_names`.
#pragma once

#include <string>
#include <vector>

#include "items/resolve.h"

namespace dcp::maps {

struct ParameterList {
  std::vector<std::string> names;
  bool are_numbers = false;  // as an optimizer's own state_dict() has them
};

// An object that is resolved with its pickle. Throws `id` for one that is no such list, and what reading a pickle throws.
ParameterList read_parameters(const SourceFacts& source, BlobId blob, ProblemId id, const Limits& limits);
// A pickle.
std::string list_of_parameters(const std::vector<std::string>& names);

}  // namespace dcp::maps
