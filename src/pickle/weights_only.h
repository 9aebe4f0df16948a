// What torch.load(weights_only=True) takes from a pickle and what it refuses, by the names that the pickle imports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"

namespace dcp {

// Whether torch 2.15 takes a global by default: "torch._utils._rebuild_tensor_v2". Python 2 names, as protocol 2 writes them, count under
// their new ones ("__builtin__.set").
bool weights_only_allows(std::string_view global);

// Whether it refuses a global whatever a program allows with torch.serialization.add_safe_globals: "posix.system".
bool weights_only_blocks(std::string_view global);

// The globals of a pickle that are refused, distinct, in order of appearance: all that it imports, used in its value or not. Nothing is
// kept of the pickle itself unless it takes names from its stack (protocol 4). Throws Error: pickle_*, over_limit; pickle_unloadable for a
// text that is not UTF-8.
std::vector<std::string> refused_globals(Bytes pickle, const Place& place, const Limits& limits);

}  // namespace dcp
