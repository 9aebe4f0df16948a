// Finds keys that belong to an optimizer by their structure, whatever the optimizer is called. A pure function of the flat keys, so the
// result is the same with and without planner data.
//
//   P.param_groups           hyperparameters below it, or an object: P is the state dict of an optimizer, and so is P.state. Where both are,
//                            so is all of P (Lookahead's P.slow_state), unless something in it is named like a model
//   P.state.3.exp_avg        the optimizer's names for what it keeps of a parameter (exp_avg, momentum_buffer, ...), or `step`
//   P.state.<fqn>.exp_avg    the same, by parameter name: torch's get_optimizer_state_dict, torchtitan's flattened form
//   P.state.exp_avg.<fqn>    Megatron's form
//   P.state.<fqn>.anything   for all below P.state, where tensors of these names are elsewhere
//   exp_avg.<fqn>            the same, for all below exp_avg
//   <fqn>.exp_avg            where <fqn> is a tensor, which no module has
//   exp_avg beside exp_avg_sq
//
// Below a module called `model` one other such name alone proves nothing, and several beside each other only where some are of a `weight`.
// Elsewhere several are marked as uncertain (OptimizerKey::beside): StateTree takes them for buffers where a module's other tensors are.
#pragma once

#include <cstdint>
#include <vector>

#include "catalog/catalog.h"

namespace dcp {

enum class OptimizerSign : uint8_t { kAbsent, kParamGroups, kSlots };

struct OptimizerKey {
  OptimizerSign sign = OptimizerSign::kAbsent;
  uint32_t top = 0;     // leading bytes of the key that name the optimizer: 3 of "opt.state.0.step"
  uint32_t beside = 0;  // not 0: such names beside each other are all that says so, in what these leading bytes name; it may be a module
};

// By position in Catalog::order. Time is linear in the keys' bytes, memory in their number.
std::vector<OptimizerKey> find_optimizer_keys(const Catalog& catalog);

}  // namespace dcp
