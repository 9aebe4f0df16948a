// Objects of a run beside the tensors that a map makes: copied under other keys, or lists of parameters made anew.
#pragma once

#include "maps/derive.h"
#include "maps/run_state.h"

namespace dcp {

// After the tensors. The objects must be resolved with their pickles. Throws map_tied_differ for those that must be the same and are not, and
// what reading a pickle throws.
void add_objects(const SourceFacts& source, const maps::RunState& run, Derived& derived);

}  // namespace dcp
