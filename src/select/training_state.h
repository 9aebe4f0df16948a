// Which keys of a checkpoint are a model and which are training state, by the five rules of docs/model-only.md: one answer for model-only selections,
// the scope of casts, and `inspect`. A pure function of the catalog, in time in proportion to the bytes of the keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"

namespace dcp {

constexpr std::string_view kExtraState = "_extra_state";  // what a module returns from get_extra_state()

// By which rule a key is not model (kOpen: by none so far), or a dict is one.
enum class Sign : uint8_t { kParamGroups, kSlots, kName, kBeside, kOpen, kTensorNames, kSecond, kRest };

// A model; or a largest subtree in which nothing is model, or a single key.
struct KeyGroup {
  std::string path;         // components joined with dots; "" of a model that is not below a root
  Sign sign = Sign::kOpen;  // of a group's keys, that of the first rule
  uint32_t components = 0;  // that load_state_dict does not know: those of a model's path, and of a piece below it
  uint64_t keys = 0, tensors = 0, tensor_bytes = 0;
};

bool is_optimizers(const KeyGroup& group);  // by rule 1, or by its name

// Whether an object that holds tensors is weights. kOwnWay: if it pickles them in a way of its own.
enum class Weights : uint8_t { kNot, kOwnWay, kAny };

struct TrainingState {
  std::vector<KeyGroup> models;             // sorted by path; none: there is no model
  std::vector<KeyGroup> groups;             // sorted by path
  std::vector<int32_t> of_tensor, of_blob;  // group g as g, model m as ~m
  uint64_t keys = 0;                        // of all groups
  // By tensor, if there are any: of a model without paths, but named and shaped like most of its tensors, behind a first word that an optimizer has
  // (adam.m.0.weight) or before one word more (0.weight.master). Who asks for the model decides (fail_doubtful).
  std::vector<bool> doubtful;
  std::vector<std::string> doubtful_globs;  // that match these, and what belongs to them

  int32_t place_of(KeyRef ref) const { return ref.is_blob() ? of_blob[ref.blob()] : of_tensor[ref.tensor()]; }
  bool is_model(KeyRef ref) const { return place_of(ref) < 0; }
  const KeyGroup& model_of(KeyRef ref) const { return models[static_cast<size_t>(~place_of(ref))]; }
  const KeyGroup& group_of(KeyRef ref) const { return groups[static_cast<size_t>(place_of(ref))]; }
  bool is_optimizers(KeyRef ref) const { return !is_model(ref) && dcp::is_optimizers(group_of(ref)); }
  bool is_doubtful(KeyRef ref) const { return !doubtful.empty() && !ref.is_blob() && doubtful[ref.tensor()]; }
  Weights weights_in(const Catalog& catalog, BlobId blob) const;
  bool has_state() const;  // tensors beside the model, or what has a trainer's name: an export has only objects that describe it
};

TrainingState find_training_state(const Catalog& catalog);

bool names_training_state(std::string_view name);  // by itself
bool names_optimizer(std::string_view name);       // where a model stands elsewhere: optim_g, actor_optimizer, Adam
bool is_slot(std::string_view word);               // exp_avg, momentum_buffer

}  // namespace dcp
