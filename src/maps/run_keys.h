// What the keys of a whole run are: parameters of a model, what an optimizer keeps of each of them, and the rest.
//
// An optimizer's keys as torch's get_optimizer_state_dict and Megatron name them; `optimizer.` may be another root, or none:
//   optimizer.state.PARAMETER.SLOT, optimizer.state.SLOT.PARAMETER
//   optimizer.param_groups.PARAMETER.HYPERPARAMETER
//   optimizer.param_groups.GROUP.params    a list of parameters; the hyperparameters beside it are of the group
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/select.h"

namespace dcp::maps {

// Of the model; or one that an optimizer has state of, and `tensor` is the largest piece of that. The two need not have the same names: a
// model may show three tensors in its state dict that are one for its optimizer.
struct Parameter {
  std::string key;
  TensorId tensor = 0;
};

// What is kept of each parameter, such as exp_avg.
struct Slot {
  std::string top;  // "optimizer.", or ""
  std::string name;
  bool in_groups = false;  // of param_groups
  bool is_nested = false;  // the dict of the parameter is one of its own; else the key is flat from `state` on
  auto operator<=>(const Slot&) const = default;
};

// optimizer.param_groups.0: what its parameters share.
struct Group {
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
  std::vector<std::vector<std::pair<uint32_t, KeyRef>>> has;  // by optimized parameter: slots, and what is there
  std::vector<Group> groups;
  std::vector<KeyRef> kept;      // no optimizer's, or its own
  std::vector<KeyRef> unplaced;  // an optimizer's tensors, of parameters by number or of none
};

// A parameter's name without what wrappers of modules put into it (rename.h), and PEFT's `base_model.model.` and `.base_layer.`.
std::string unwrapped(std::string_view name);

// The tensors of a selection, whatever they are, under such names.
std::vector<Parameter> parameters_of(const Selection& selection);
// Throws several_models.
RunKeys run_keys(const Catalog& catalog, const Selection& selection);

}  // namespace dcp::maps
