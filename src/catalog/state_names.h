// What the names of path components in a checkpoint reveal by themselves.
#pragma once

#include <string>
#include <string_view>

namespace dcp {

constexpr std::string_view kExtraState = "_extra_state";  // an object that a module keeps

// Whether nothing below it is model: `optimizer`, `lr_scheduler_0`.
bool names_training_state(std::string_view component);

bool names_whole_state(std::string_view component);  // those of them that may hold the model, too: train_state, global_step_1000

// Whether that is possible: optim_g, actor_optimizer, optimizerG, adam, torch_rng_state, and names that modules and parameters have too
// (`step`).
bool may_name_training_state(std::string_view component);

bool may_name_optimizer(std::string_view component);  // those of them that are an optimizer's

// What ends like a part of a module: opt_proj, optimizer_net.
bool ends_like_module(std::string_view component);

// What trainers call copies of a model: ema, teacher, target_net.
bool names_copy(std::string_view component);

bool is_model_name(std::string_view component);
bool is_root_name(std::string_view component);  // like a model, or state_dict, which may be a trainer's
bool is_state_dict(std::string_view component);

bool has_dots(std::string_view component);

// What parameters and buffers of most modules are called.
bool is_parameter_name(std::string_view component);
bool is_weight_or_bias(std::string_view component);  // those of them that are parameters'

// Without a number at its end: optimizer_0, optimizer1.
std::string_view without_number(std::string_view component);
// With one mark in the place of each number: layer#.#.weight.
std::string without_numbers(std::string_view name);

}  // namespace dcp
