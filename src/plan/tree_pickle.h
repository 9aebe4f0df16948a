// Writes the containers of a tree as pickle opcodes.
#pragma once

#include <functional>

#include "pickle/writer.h"
#include "plan/plan.h"
#include "plan/tree.h"

namespace dcp {

// Appends the dict or list at `node`; `leaf` appends the value of each leaf, given the entry's number. Adds to `holes` the positions that
// it filled with None.
void write_container(const Tree& tree, uint32_t node, PickleWriter& writer, const std::function<void(uint32_t entry)>& leaf,
                     ListHoles& holes);

}  // namespace dcp
