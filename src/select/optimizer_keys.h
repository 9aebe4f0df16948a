// The keys that an optimizer keeps, by their structure alone, whatever the words before it are. A `state` below a `model` is a module.
//   param_groups, and the `state` beside it
//   state.<tensor>.<slot>, state.<slot>.<tensor>, and all else below that `state`
//   <tensor>.<slot>, <slot>.<tensor>, where <tensor> is a key, too
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"

namespace dcp {

// By which rule a key is not model (training_state.h). kOpen: by none so far.
enum class StateSign : uint8_t { kParamGroups, kSlots, kName, kBeside, kOpen };

struct KeySign {
  StateSign sign = StateSign::kOpen;
  uint32_t top = 0;  // bytes of the key that name the whole optimizer; 0: the key itself does
  explicit operator bool() const { return sign != StateSign::kOpen; }
};

// By position in Catalog::order. Takes time in proportion to the bytes of the keys.
std::vector<KeySign> find_optimizer_keys(const Catalog& catalog);

bool is_slot(std::string_view word);  // exp_avg, momentum_buffer
bool is_number(std::string_view word);
bool is_parameter_name(std::string_view name);  // what those of most modules end with

}  // namespace dcp
