// A pickle as a graph that keeps everything and interprets nothing. It is used to show planner data and byte items, and for whole
// torch.save files, whose values become pickles of their own (graph_write.h).
//
// The tag of a kObject says how it was made: CallForm. Containers and objects may be shared and may contain themselves: walk with visit(),
// or bound the depth. No walk here recurses.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"
#include "pickle/machine.h"

namespace dcp {

// kNewKeywords is NEWOBJ_EX: the callable of such an object is another object, with the class and its arguments; its arguments are the dict
// of keywords.
enum class CallForm : uint16_t { kReduce, kNew, kNewKeywords };

struct ReprCaps {
  uint64_t depth = 6;     // containers inside containers
  uint64_t length = 200;  // bytes of the line
  uint64_t text = 60;     // bytes of one text
};

class PickleGraph {
 public:
  // Makes the value that replaces a persistent id in the graph.
  using Persistent = std::function<Value(PickleMachine&, const Value& id)>;
  // `pickle` must outlive the graph. Throws Error (pickle_*, over_limit, or what `persistent` throws).
  PickleGraph(Bytes pickle, const Place& place, const Limits& limits, const Persistent& persistent = stand_for);
  // A value for which is_persistent() holds.
  static Value stand_for(PickleMachine& m, const Value& id) { return m.object({.kind = Kind::kGlobal, .n = kPersistent}, id); }

  const Value& root() const { return root_; }
  uint64_t memory_bytes() const { return machine_.arena_cells() * sizeof(Value) + globals_.capacity() * sizeof(globals_[0]); }
  const PickleMachine& machine() const { return machine_; }  // text(), items(), element(), callable_of(), arguments_of(), state_of()

  // Module and name of a kGlobal; both are empty for other values and for the placeholder of a persistent id.
  std::pair<std::string_view, std::string_view> global(const Value& v) const;
  // "module.name" of a kGlobal, or of the callable of a kObject; "" otherwise.
  std::string global_of(const Value& v) const;
  bool is_persistent(const Value& v) const;  // a kObject whose argument is a persistent id

  // Calls fn for the root and for every value below it. Each container and object is visited once, before what it holds.
  void visit(const std::function<void(const Value&)>& fn) const;
  // The same from `v` down, skipping what `seen` marks as visited; `seen` starts out empty.
  void visit(const Value& v, std::vector<bool>& seen, const std::function<void(const Value&)>& fn) const;
  // Module and name of every import, in order, even if it is not part of the final value.
  std::span<const std::pair<std::string_view, std::string_view>> globals() const { return std::span(globals_).subspan(1); }

  std::string scalar_repr(const Value& v, const ReprCaps& caps) const;  // of a value that contains no others
  // One line such as `{'lr': 0.1, 'betas': (0.9, 0.999), 'x': collections.OrderedDict(){'a': 1}}`; an object's state
  // follows ` with `; "..." where a cap cut it.
  std::string repr(const Value& v, const ReprCaps& caps = {}) const;

 private:
  static constexpr uint32_t kPersistent = 0;  // number of the callable that stands for a persistent id
  struct Handler {
    std::vector<std::pair<std::string_view, std::string_view>>* globals;
    const Persistent& on_persistent;
    Value global(PickleMachine&, std::string_view module, std::string_view name);
    Value reduce(PickleMachine& m, const Value& callable, const Value& arguments) { return m.object(callable, arguments); }
    Value new_object(PickleMachine& m, const Value& cls, const Value& arguments, const Value& keywords);
    Value build(PickleMachine& m, const Value& object, const Value& state) {
      if (m.state_of(object).kind != Kind::kUnset) m.fail_operand(state, "one state for an object");
      m.set_state(object, state);
      return object;
    }
    Value persistent(PickleMachine& m, const Value& id) { return on_persistent(m, id); }
  };
  Place place_;
  Limits limits_;
  PickleMachine machine_;
  std::vector<std::pair<std::string_view, std::string_view>> globals_;
  Value root_;
};

}  // namespace dcp
