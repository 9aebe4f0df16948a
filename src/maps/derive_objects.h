// Objects of a run beside the tensors of a map: copied under other keys, or, for lists of parameters, rebuilt.
#pragma once

#include "maps/derive.h"
#include "maps/run_state.h"

namespace dcp {

// Call after the tensors. The objects must be resolved with their pickles. Throws map_tied_differ for objects that must be equal and are
// not, and what reading a pickle throws.
void add_objects(const SourceFacts& source, const maps::RunState& run, Derived& derived);

}  // namespace dcp
