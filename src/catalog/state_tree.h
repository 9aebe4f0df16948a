// The tree of path components in a checkpoint's keys. Keys that are training state by their structure or by name carry a sign, and each
// dict or list summarizes the keys in and below it: training_state finds the model by these.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/optimizer_state.h"
#include "catalog/training_state.h"

namespace dcp {

class StateTree {
 public:
  // A dict or list of the state dict.
  struct Dir {
    uint32_t parent = 0;
    uint32_t depth = 0;
    uint64_t text_end = 0;        // of its path in a key, with the dot
    std::string_view name;        // empty for a position
    StringId name_id = kNone;     // of a checkpoint with planner data
    bool is_numbered = false;     // a position of a list, or a number: planner data has integers as text
    bool in_model = false;        // it or one above it is named like a model
    bool in_state_dict = false;   // ... or state_dict
    bool is_state = false;        // by its name or that of one above it
    bool in_extra_state = false;  // of a module: a dict that get_extra_state() returned
    bool is_modules = false;      // it is a module's state dict: tensors with dots in their names, and nothing that a module does not save
    uint32_t doubtful = kNone;    // the highest one with a name of state that modules have too
    // Of all below:
    uint64_t keys = 0, tensors = 0, state_keys = 0, state_tensors = 0;
    uint64_t module_like = 0;  // tensors, not state, named as a module names its parameters,
    uint64_t wide = 0;         // or floating with two dims and more
    bool holds_named = false;  // something named like a model, with tensors
    bool holds_fqns = false;   // a module's state dict, which is flat: itself or below
    // Of its own leaves:
    uint64_t state_leaves = 0;
    uint64_t objects = 0;     // not state, and no module's _extra_state
    uint64_t parameters = 0;  // tensors, not state, named as a module's, or of two dims and more;
    uint64_t fqns = 0;        // the same with dots in their names;
    uint64_t floats = 0;      // floating ones

    uint64_t open_tensors() const { return tensors - state_tensors; }
    bool all_state() const { return keys > 0 && (tensors > 0 ? state_tensors == tensors : state_keys == keys); }
  };

  explicit StateTree(const Catalog& catalog);

  // Keys have numbers: their positions in Catalog::order.
  size_t keys() const { return signs_.size(); }
  const Tensor* tensor(size_t k) const { return c_.order[k].is_blob() ? nullptr : &c_.tensors[c_.order[k].tensor()]; }
  const Blob& blob(size_t k) const { return c_.blobs[c_.order[k].blob()]; }
  std::string_view key(size_t k) const { return tensor(k) ? c_.key(*tensor(k)) : c_.key(blob(k)); }
  PathRange path(size_t k) const { return tensor(k) ? tensor(k)->path : blob(k).path; }
  std::string_view leaf(size_t k) const;                                         // the last component; the whole key without planner data
  StringId leaf_id(size_t k) const;                                              // the same as a number; kNone for a position
  const std::vector<std::optional<StateSign>>& signs() const { return signs_; }  // by key
  uint32_t dir_of(size_t k) const { return dir_of_[k]; }
  const OptimizerKey& optimizer(size_t k) const { return optimizer_[k]; }

  const Dir& dir(uint32_t d) const { return dirs_[d]; }
  uint32_t dirs() const { return static_cast<uint32_t>(dirs_.size()); }
  std::span<const uint32_t> children(uint32_t d) const;
  // Whether its content shows that it is a trainer's dict and not part of a module.
  bool is_trainers(uint32_t d) const;
  bool is_trainers() const { return is_trainers_; }  // something shows that a trainer saved it

 private:
  struct Step {
    uint32_t parent;
    uint64_t code;
    bool operator==(const Step&) const = default;
  };
  struct StepHash {
    size_t operator()(const Step& s) const {
      uint64_t h = (s.code ^ (uint64_t{s.parent} << 32)) * 0x9E3779B97F4A7C15u;
      h = (h ^ (h >> 31)) * 0xBF58476D1CE4E5B9u;
      return h ^ (h >> 29);
    }
  };

  // What is in and below a dir, before it is judged.
  struct Contents {
    bool has_tensors = false, has_fqns = false;  // not state; has_fqns: of its own leaves
    bool holds_fqns = false;                     // itself or one below it has
    bool has_own_names = false;                  // parameters, in it or below, that are not called like tensors outside all optimizers
    bool is_beside_fqns = false;                 // its dict, or another one in it that is not called like an optimizer, holds some
    bool has_copies = false;                     // of a model, by the name of a child
    bool has_optimizers = false;                 // by a name below it
    uint32_t roots = 0;                          // of models, itself included
  };

  uint32_t child(uint32_t parent, uint64_t code, std::string_view name, bool is_numbered);
  void make_dirs();
  void free_whole_states();
  void judge_keys();
  bool is_fqn(size_t k) const;
  void find_modules();
  void judge_first_words();
  void judge_dicts_of_parameters();
  bool leaf_names_state(size_t k) const;
  bool leaf_may_name_state(size_t k, bool among_parameters) const;
  std::vector<Contents> contents() const;
  void judge_optimizers();
  void judge_names();
  void judge_lists();
  void count();
  void count(size_t k, Dir& d);
  void link_children();

  const Catalog& c_;
  std::vector<std::optional<StateSign>> signs_;  // by key, as the next two
  std::vector<uint32_t> dir_of_;
  std::vector<OptimizerKey> optimizer_;  // `top` also where the first word of a flat key says it
  std::vector<Dir> dirs_;                // parents before children; the first is the root
  std::unordered_map<Step, uint32_t, StepHash> numbers_;
  std::vector<uint32_t> first_child_, children_;
  bool is_trainers_ = false;
};

}  // namespace dcp
