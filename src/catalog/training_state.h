// Which part of a checkpoint is model and which is training state: one answer for model-only selections, the scope of casts, and `inspect`. A pure
// function of the catalog.
//
// In this order:
//   structure      keys that are an optimizer's (optimizer_state.h)
//   repetition     a dict that repeats the names and shapes of another's parameters (mirrored_state.h): one that is called like an optimizer
//                  (`adam`, `optim_g`), or one that repeats them several times and is not called like copies of a model (`ema`, `teachers`).
//                  Beside a `model`, `net`, `module` or `state_dict`, a name like an optimizer's is enough
//   names          a component of the path (no planner data: the key up to its first dot) that is one of a closed list, or one of them with
//                  a number. Names that modules have as well (`step`, `scaler`) say it only where something else shows a trainer's
//                  checkpoint; nothing below a `model` is judged by its name, and no tensor in a dict that is nothing but a module's state dict
//   first words    of keys that are one component (`optimizer.m.<fqn>`), by the same list (first_words.h)
//   lists          and dicts that no module has, beside a dict with `param_groups`
//   what is beside the model: where a `model`, `net`, `module` or `state_dict` holds tensors, or where the dict is a trainer's, the model is
//                  the one subtree that looks like a module's state dict; there may be several. A module's state dict is flat: a tensor beside
//                  one, and a dict beside its keys, are none of its own, but for what its get_extra_state() returned; and dicts that each hold
//                  a state dict hold a model each. Tensors beside an optimizer that are called like no parameter, and have no shape that it
//                  keeps, are no model
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/catalog.h"

namespace dcp {

enum class StateSign : uint8_t { kParamGroups, kSlots, kName, kBeside };

// A largest subtree in which nothing is model, or a single key.
struct StateGroup {
  std::string path;  // components joined with dots
  StateSign sign{};
  uint64_t keys = 0, tensors = 0, tensor_bytes = 0;
};

struct ModelRoot {
  std::string path;  // components joined with dots; "" if the model is not below a root
  uint32_t components =
      0;  // that load_state_dict does not know: those of the path, and where the model is in pieces (`model.0`, `model.1`)
          // that have no key in common, the piece's
  uint64_t keys = 0, tensors = 0, tensor_bytes = 0;
};

struct TrainingState {
  std::vector<ModelRoot> models;            // sorted by path; none: there is no model
  std::vector<StateGroup> groups;           // sorted by path
  std::vector<int32_t> of_tensor, of_blob;  // group g as g, model m as ~m
  uint64_t keys = 0;                        // of all groups
  bool has_parameters_beside = false;       // such as lm_head.weight beside a `model`, which is therefore not a root

  int32_t place_of(KeyRef ref) const { return ref.is_blob() ? of_blob[ref.blob()] : of_tensor[ref.tensor()]; }
  // There is a model, and beside it what training resumes from: an optimizer, or tensors, or what is a trainer's by name. A model and the
  // objects that describe it (its config) are an export.
  bool is_full() const;
  bool is_model(KeyRef ref) const { return place_of(ref) < 0; }
  const ModelRoot& model_of(KeyRef ref) const { return models[static_cast<size_t>(~place_of(ref))]; }
  const StateGroup& group_of(KeyRef ref) const { return groups[static_cast<size_t>(place_of(ref))]; }
};

TrainingState find_training_state(const Catalog& catalog);

// Throws several_models; `paths` are theirs.
[[noreturn]] void fail_several(const Catalog& catalog, const std::vector<std::string>& paths);

}  // namespace dcp
