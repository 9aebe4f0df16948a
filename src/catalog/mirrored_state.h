// Finds dicts that repeat the parameter names and shapes of another one: what an optimizer keeps, a tensor of each parameter in each slot,
// whatever the slots are called (`adam.m.<fqn>` and `adam.v.<fqn>` beside `net.<fqn>`).
#pragma once

#include <cstdint>
#include <vector>

#include "catalog/catalog.h"

namespace dcp {

class StateTree;

// What a dict is, by the tensors of several elements below it: most of them decide.
enum class Mirror : uint8_t {
  kAbsent,
  kItself,  // it repeats another dict as a whole
  kOnce,    // one prefix in it does
  kTwice,   // several do
};

struct MirrorQuestion {
  uint32_t dir;        // none of them below another
  bool is_optimizers;  // by its name: nested dicts of any names may be repeated. Else state dicts, whose names have dots, and models' roots
};

// By dir of the tree. Time is linear in the keys' bytes.
std::vector<Mirror> find_mirrors(const Catalog& catalog, const StateTree& tree, const std::vector<MirrorQuestion>& questions);

}  // namespace dcp
