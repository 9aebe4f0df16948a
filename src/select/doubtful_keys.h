// Flat keys of a model that may be an optimizer's: names of tensors behind a first word that an optimizer has (adam.m.0.weight), or before one word
// more (0.weight.master), each in the shape of the tensor, for most tensors. Who asks for the model decides (fail_doubtful).
#pragma once

#include "select/training_state.h"

namespace dcp {

// Fills in state.doubtful and doubtful_globs; the rest is known.
void find_doubtful(const Catalog& catalog, TrainingState& state);

}  // namespace dcp
