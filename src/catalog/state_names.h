// What the components of a checkpoint's paths say by their names alone.
#pragma once

#include <string_view>

namespace dcp {

constexpr std::string_view kExtraState = "_extra_state";  // an object that a module keeps

// Whether what lies below it is not model, whatever it is: `optimizer`, `lr_scheduler_0`.
bool names_training_state(std::string_view component);

// Whether it may be: optim_g, actor_optimizer, optimizerG, adam, torch_rng_state, and names that modules and parameters have as well (`step`).
bool may_name_training_state(std::string_view component);

bool is_model_name(std::string_view component);
bool is_root_name(std::string_view component);  // the same or state_dict, which may be a trainer's
bool is_state_dict(std::string_view component);

bool has_dots(std::string_view component);

// What parameters and buffers of most modules are called.
bool is_parameter_name(std::string_view component);

// Without a number at its end: optimizer_0, optimizer1.
std::string_view without_number(std::string_view component);

}  // namespace dcp
