// Classifies the keys of a whole run: parameters of a model, optimizer state of each parameter, and the rest.
//
// An optimizer's keys as torch's get_optimizer_state_dict and Megatron name them; `optimizer.` may be another root, or none:
//   optimizer.state.PARAMETER.SLOT, optimizer.state.SLOT.PARAMETER
//   optimizer.param_groups.PARAMETER.HYPERPARAMETER
//   optimizer.param_groups.GROUP.params    a list of parameters; the hyperparameters beside it belong to the group
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/catalog.h"

namespace dcp {
struct Selection;
}

namespace dcp::maps {

// A parameter of the model; or one with optimizer state, and `tensor` is the largest tensor of that. The two sets of names may differ:
// three tensors of a model's state dict may be one for its optimizer.
struct Parameter {
  std::string key;
  TensorId tensor = 0;
};

// One kind of state per parameter, such as exp_avg.
struct Slot {
  std::string top;  // "optimizer.", or ""
  std::string name;
  bool in_groups = false;  // below param_groups
  bool is_nested = false;  // the parameter has a dict of its own; else the key is flat after `state`
  auto operator<=>(const Slot&) const = default;
};

// optimizer.param_groups.0: what the parameters of a group share.
struct ParamGroup {
  std::string top, number;
  std::vector<BlobId> lists;                           // of its parameters
  std::vector<std::pair<std::string, BlobId>> values;  // lr, betas
};

struct RunKeys {
  bool any = false;  // there is more than a model
  std::string root;  // of the model
  std::vector<Parameter> model;
  std::vector<Parameter> optimized;
  std::vector<Slot> slots;
  std::vector<std::vector<std::pair<uint32_t, KeyRef>>> has;  // by optimized parameter: slots, and their values
  std::vector<ParamGroup> groups;
  std::vector<KeyRef> kept;      // belongs to no optimizer, or to none of its parameters
  std::vector<KeyRef> unplaced;  // tensors of an optimizer, with numbered parameters or none

  bool is_bare_model() const { return !any && root.empty(); }
};

// A parameter's name without the prefixes of module wrappers (rename.h), and without PEFT's `base_model.model.` and `.base_layer.`.
std::string unwrapped(std::string_view name);

// The name that a text model's own parameter has where it is not within a model of images: without `model.language_model.` or
// `language_model.`.
std::string of_text_model(std::string_view name);

std::vector<std::string_view> keys_of(const std::vector<Parameter>& parameters);

// All tensors of a selection, under such names.
std::vector<Parameter> parameters_of(const Selection& selection);
// Those of the model, without its root; of several models, none.
std::vector<Parameter> model_parameters(const Selection& selection);
// Throws several_models.
RunKeys run_keys(const Catalog& catalog, const Selection& selection);

}  // namespace dcp::maps
