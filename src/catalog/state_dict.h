// The state dict in a torch.save file, flattened as torch's DefaultSavePlanner does before it saves one as a distributed checkpoint: keys
// and paths are those of a DCP checkpoint of the same state dict.
//
// Rules of torch 2.4 to 2.15 (torch/distributed/checkpoint/_traverse.py): mappings are always descended into, and their keys become text.
// Lists are descended into unless they are terminal, that is, have no tensor, no mapping and no non-terminal list. Everything else is a
// leaf, even a tuple with tensors. torch drops empty mappings. Here each is a leaf, so that it is not lost from the state dict; a list of
// only such mappings is one leaf, since torch's format_utils mistakes a list of byte items for one. Mappings are dict, and OrderedDict
// (which Python 2 pickled as a call with a list of pairs), defaultdict and Counter of `collections`, all read as dicts; an object of any
// other class is a leaf, since only its class knows its content. If several paths result in one key (those of the dict keys 25 and '25'),
// torch's planner refuses the state dict; here all except the first get a number: KEY#2.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/problem.h"
#include "format/dcp_metadata.h"
#include "format/torch_tensor.h"
#include "pickle/graph.h"

namespace dcp {

// The call that would rebuild a tensor: its kind and arguments. makes_plain() holds for a plain tensor; all others (quantized, sparse, on
// meta, subclasses) are opaque, with kOther if only the class knows their content. kOther and not opaque: not a tensor.
struct TensorCall {
  TorchGlobal::Kind kind = TorchGlobal::Kind::kOther;
  Value arguments;
  bool requires_grad = false;
  bool opaque = false;
  std::string cls{};  // "module.Class", if it is not torch.Tensor
};

// Whether a process holds only its own part of tensors of this class.
bool is_one_ranks(std::string_view cls);

class StateDict {
 public:
  StateDict(const PickleGraph& graph, const Place& place, const Limits& limits);

  struct Leaf {
    std::string_view key;
    std::span<const MetadataContent::PathElement> path;  // valid during the call; the names in it live as long as this object
    Value value;
    TensorCall tensor;
    bool empty_mapping = false;
  };
  // Prefixes keys and paths as if this state dict were nested under these names.
  void put_under(const std::vector<std::string>& names);
  // Calls fn for each leaf, in order. Throws torch_no_state_dict for a root that is not a mapping, state_dict_cycle, over_limit.
  void flatten(const std::function<void(const Leaf&)>& fn);
  // The same for any root: one that cannot be descended into is the only leaf, with key "".
  void flatten_any(const std::function<void(const Leaf&)>& fn);
  // The call that makes a tensor, if the value is one.
  TensorCall tensor_call(Value v) const;

  const GraphNames& names() const { return names_; }
  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }  // it lives as long as this object

  // Keys that are neither text nor integers: paths have them as text, as in torch's planner, and their type is lost.
  struct OddKeys {
    uint64_t count = 0;
    std::string example;
  };
  const OddKeys& odd_keys() const { return odd_keys_; }

  // The keys with a number, as one finding.
  std::optional<Problem> keys_twice() const;

 private:
  using PathElement = MetadataContent::PathElement;
  // A mapping or list that is being walked.
  struct Open {
    Value v;
    PickleMachine::Items items;
    bool is_list = false;
    bool in_pairs = false;  // each item is a key and a value
    int64_t position = 0;
  };

  bool is_parameter(const Value& v) const;
  bool is_any_tensor(const Value& v) const;
  bool is_mapping(const Value& v) const;
  bool are_pairs(const Value& list) const;
  bool is_empty_mapping(const Value& v) const;
  bool is_terminal(const Value& list, uint64_t depth);
  bool is_hollow(const Value& v);
  Value entries_of(const Value& mapping) const;
  void open(const Value& v, bool is_list);
  void walk(const std::function<void(const Leaf&)>& fn);
  void enter(const Value& v, const std::function<void(const Leaf&)>& fn);
  PathElement key_of(const Value& key);
  void refuse_root(const Value& root) const;
  std::string path_text() const;
  std::string_view numbered(std::string_view key, bool is_object);

  const PickleGraph& graph_;
  const PickleMachine& m_;
  const Place& place_;
  const Limits& limits_;
  GraphNames names_;
  std::vector<Open> open_;
  std::unordered_set<uint64_t> on_path_;
  std::unordered_map<uint64_t, bool> terminal_, hollow_;
  mutable std::unordered_map<uint64_t, bool> pairs_;
  std::vector<PathElement> path_;
  size_t prefix_ = 0;                                    // elements of path_ that put_under has set
  std::unordered_map<std::string_view, uint64_t> keys_;  // how often each occurred
  std::optional<Problem> first_twice_;
  uint64_t twice_ = 0;
  std::deque<std::string> texts_;
  OddKeys odd_keys_;
  uint64_t path_bytes_ = 0;  // of keys and paths so far
  uint64_t visits_ = 0;      // values of containers walked so far
};

// Whether the pickle is a call with tensors among its arguments, as from a tensor subclass with its own pickling, or has a tensor that is
// not plain, as packed parameters of quantized modules do. Plain tensors in containers or in an object's state do not count, since they
// need not be parameters: old torch stores nested dicts that way.
bool holds_tensors_in_own_way(const PickleGraph& graph, const Limits& limits);

}  // namespace dcp
