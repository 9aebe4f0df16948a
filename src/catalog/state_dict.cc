#include "catalog/state_dict.h"

#include <algorithm>

#include "base/checked.h"

namespace dcp {
namespace {

using Means = TorchGlobal::Kind;

}  // namespace

bool is_one_ranks(std::string_view cls) {
  return cls.starts_with("torch.distributed.") && (cls.ends_with(".DTensor") || cls.ends_with(".ShardedTensor"));
}

StateDict::StateDict(const PickleGraph& graph, const Place& place, const Limits& limits)
    : graph_(graph), m_(graph.machine()), place_(place), limits_(limits), names_(graph) {}

// --- what a value is

namespace {

bool is_strided_tensor(Means m) { return m == Means::kTensorV1 || m == Means::kTensorV2 || m == Means::kTensorV3; }
bool is_odd_tensor(Means m) { return m == Means::kQuantized || m == Means::kSparse || m == Means::kMeta || m == Means::kWrapper; }

}  // namespace

TensorCall StateDict::tensor_call(Value v) const {
  TensorCall call;
  // Whatever torch calls a tensor counts as one, even if dcpctl cannot read it.
  TensorCall odd{.kind = Means::kOther, .arguments = {}, .opaque = is_any_tensor(v), .cls = graph_.global_of(v)};
  // No program nests parameters in parameters; a few levels are tolerated.
  for (int nested = 0; nested < 8; ++nested) {
    if (v.kind != Kind::kObject) return odd;
    const Value arguments = m_.arguments_of(v);
    const auto at = [&](uint32_t i) { return m_.element(arguments, i); };
    if (arguments.kind != Kind::kTuple) return odd;
    call.kind = names_.meaning(m_.callable_of(v)).kind;
    call.arguments = arguments;
    switch (call.kind) {
      case Means::kParameter:
      case Means::kParameterWithState:
        if (arguments.n < 2) return odd;
        call.requires_grad = at(1).kind == Kind::kBool && at(1).payload != 0;
        v = at(0);
        continue;
      case Means::kTensorClass:  // Parameter(tensor), as torch pickled it before 0.4: its state begins with requires_grad
        if (!is_parameter(v) || arguments.n != 1) return odd;
        if (const Value state = m_.state_of(v); state.kind == Kind::kTuple && state.n == 3 && m_.element(state, 0).kind == Kind::kBool)
          call.requires_grad = m_.element(state, 0).payload != 0;
        v = at(0);
        continue;
      case Means::kFromType:  // a tensor with Python attributes; if its class is torch's own, it is a tensor like any other
        if (arguments.n != 4) return odd;
        if (const auto inner = TensorReader(m_, names_, limits_, place_).wrapped(v); inner.tensor.kind != Kind::kUnset) {
          const Value grad = m_.element(at(2), 7);
          call.requires_grad = call.requires_grad || (grad.kind == Kind::kBool && grad.payload != 0);
          call.cls = inner.cls;
          v = inner.tensor;
          continue;
        }
        if (names_.meaning(at(1)).kind != Means::kTensorClass) {
          call.opaque = true;
          call.cls = odd.cls = graph_.global_of(at(1));
        }
        call.kind = names_.meaning(at(0)).kind;
        call.arguments = at(2);
        if (call.kind == Means::kParameter && call.arguments.kind == Kind::kTuple && call.arguments.n > 0) {
          v = m_.element(call.arguments, 0);
          continue;
        }
        break;
      default: break;
    }
    const bool is_odd = is_odd_tensor(call.kind);
    if (!is_odd && !is_strided_tensor(call.kind)) return odd;
    call.opaque = call.opaque || is_odd;
    if (call.kind != Means::kQuantized && call.arguments.kind == Kind::kTuple && call.arguments.n > 4)
      call.requires_grad =
          call.requires_grad || (m_.element(call.arguments, 4).kind == Kind::kBool && m_.element(call.arguments, 4).payload != 0);
    return call;
  }
  return odd;
}

bool StateDict::is_parameter(const Value& v) const { return graph_.global_of(v) == "torch.nn.parameter.Parameter"; }

// Whether torch would call it a tensor when it searches a list; sparse tensors and subclasses are, too.
bool StateDict::is_any_tensor(const Value& v) const {
  if (v.kind != Kind::kObject) return false;
  const std::string name = graph_.global_of(v);
  return name.starts_with("torch._utils._rebuild_") || name.starts_with("torch._tensor._rebuild_from_type") || is_parameter(v) ||
         is_one_ranks(name);
}

bool StateDict::is_mapping(const Value& v) const {
  if (v.kind == Kind::kDict) return true;
  if (v.kind != Kind::kObject || m_.arguments_of(v).kind != Kind::kTuple) return false;
  const Value arguments = m_.arguments_of(v);
  const std::string name = graph_.global_of(v);
  if (name == "collections.Counter") return arguments.n == 1 && m_.element(arguments, 0).kind == Kind::kDict && m_.count(v) == 0;
  auto it = m_.items(v);
  Value first;
  const bool is_bare = !it.next(first);
  if (name == "collections.OrderedDict" && arguments.n == 1) return is_bare && are_pairs(m_.element(arguments, 0));
  if (name == "collections.OrderedDict" ? arguments.n != 0 : name != "collections.defaultdict") return false;
  return is_bare || it.in_pair();
}

bool StateDict::are_pairs(const Value& list) const {
  if (list.kind != Kind::kList) return false;
  const auto [known, fresh] = pairs_.try_emplace(list.payload, true);
  Value pair, part;
  for (auto items = m_.items(list); fresh && known->second && items.next(pair);) {
    auto parts = m_.items(pair);
    known->second = (pair.kind == Kind::kList || pair.kind == Kind::kTuple) && parts.next(part) && parts.next(part) && !parts.next(part);
  }
  return known->second;
}

// The value with the keys and values: the mapping itself, or the argument of its class.
Value StateDict::entries_of(const Value& mapping) const {
  if (mapping.kind != Kind::kObject || graph_.global_of(mapping) == "collections.defaultdict") return mapping;
  const Value arguments = m_.arguments_of(mapping);
  return arguments.n == 0 ? mapping : m_.element(arguments, 0);
}

bool StateDict::is_empty_mapping(const Value& v) const {
  if (!is_mapping(v)) return false;
  auto items = m_.items(entries_of(v));
  Value first;
  return !items.next(first);
}

bool StateDict::is_terminal(const Value& list, uint64_t depth) {
  if (depth > limits_.pickle_depth)
    fail(ProblemId::over_limit, place_, "lists nested " + std::to_string(depth) + " deep",
         "at most " + std::to_string(limits_.pickle_depth));
  Value v;
  if (auto it = m_.items(list); !it.next(v)) return true;  // without an entry in the map
  // A list inside itself counts as terminal while it is examined.
  const auto [known, fresh] = terminal_.try_emplace(list.payload, true);
  if (!fresh) return known->second;
  for (const Value& element : m_.items(list)) {
    if (is_mapping(element) || is_any_tensor(element) || (element.kind == Kind::kList && !is_terminal(element, depth + 1))) {
      terminal_[list.payload] = false;
      return false;
    }
  }
  return true;
}

// Whether it is an empty mapping, or a list of nothing else. Lists must have been walked by is_terminal, which bounds their depth.
bool StateDict::is_hollow(const Value& v) {
  if (v.kind != Kind::kList) return is_empty_mapping(v);
  const auto [known, fresh] = hollow_.try_emplace(v.payload, false);
  if (!fresh) return known->second;
  auto items = m_.items(v);
  Value element;
  bool hollow = false;
  while (items.next(element)) {
    hollow = is_hollow(element);
    if (!hollow) break;
  }
  return hollow_[v.payload] = hollow;
}

// --- the walk

std::string StateDict::path_text() const {
  std::string text;
  for (size_t i = 0; i < path_.size(); ++i) {
    if (i > 0) text += '.';
    text += path_[i].position >= 0 ? std::to_string(path_[i].position) : std::string(path_[i].name);
  }
  return text;
}

MetadataContent::PathElement StateDict::key_of(const Value& key) {
  if (key.kind == Kind::kText) return {.name = m_.text(key)};
  if (key.kind == Kind::kInt) return {.name = texts_.emplace_back(std::to_string(key.integer())), .is_integer = true};
  const std::string& text = texts_.emplace_back(graph_.repr(key, {.depth = 8, .length = limits_.name_bytes, .text = limits_.name_bytes}));
  if (odd_keys_.count++ == 0) odd_keys_.example = text;
  return {.name = text};
}

void StateDict::open(const Value& v, bool is_list) {
  if (!on_path_.insert(v.payload).second) {
    Place place = place_;
    place.tensor = path_text();
    fail(ProblemId::state_dict_cycle, std::move(place));
  }
  if (open_.size() >= limits_.pickle_depth)
    fail(ProblemId::over_limit, place_, "containers nested " + std::to_string(open_.size() + 1) + " deep",
         "at most " + std::to_string(limits_.pickle_depth));
  const Value holder = is_list ? v : entries_of(v);
  open_.push_back({.v = v, .items = m_.items(holder), .is_list = is_list, .in_pairs = !is_list && holder.kind == Kind::kList});
}

void StateDict::enter(const Value& v, const std::function<void(const Leaf&)>& fn) {
  const bool empty_mapping = is_empty_mapping(v);
  if (!empty_mapping && is_mapping(v)) return open(v, false);
  if (v.kind == Kind::kList && !is_terminal(v, 0) && !is_hollow(v)) return open(v, true);
  std::string key = path_text();
  path_bytes_ += key.size() + path_.size() * sizeof(PathElement);
  const uint64_t max = std::min(limits_.state_dict_bytes, limits_.path_bytes + 64 * m_.arena_cells());
  if (path_bytes_ > max)
    fail(ProblemId::over_limit, place_, "a state dict whose keys and paths take " + std::to_string(path_bytes_) + " bytes",
         "at most " + std::to_string(max));
  const TensorCall tensor = tensor_call(v);
  std::string_view kept = texts_.emplace_back(std::move(key));
  if (const auto [met, is_first] = keys_.try_emplace(kept, 1); !is_first) {
    texts_.pop_back();
    kept = numbered(met->first, tensor.kind == Means::kOther && !tensor.opaque);
  }
  fn({.key = kept, .path = path_, .value = v, .tensor = tensor, .empty_mapping = empty_mapping});
}

std::string_view StateDict::numbered(std::string_view key, bool is_object) {
  uint64_t& met = keys_[key];
  std::string text;
  do text = std::string(key) + "#" + std::to_string(++met);
  while (keys_.contains(text));
  path_bytes_ += text.size();  // it is kept in addition to the other
  const std::string_view kept = texts_.emplace_back(std::move(text));
  keys_.emplace(kept, 1);
  if (twice_++ == 0)
    first_twice_ =
        make_finding(ProblemId::state_dict_key_twice, Severity::kWarning,
                     {.path = place_.path, .tensor = std::string(key), .object = is_object}, "here the second is " + std::string(kept));
  return kept;
}

std::optional<Problem> StateDict::keys_twice() const {
  std::optional<Problem> p = first_twice_;
  if (twice_ > 1) p->got += ", and " + std::to_string(twice_ - 1) + " more";
  return p;
}

void StateDict::put_under(const std::vector<std::string>& names) {
  for (const std::string& name : names) path_.push_back({.name = texts_.emplace_back(name)});
  prefix_ = path_.size();
}

void StateDict::flatten(const std::function<void(const Leaf&)>& fn) {
  const Value root = graph_.root();
  if (prefix_ == 0 && !is_mapping(root)) refuse_root(root);
  if (prefix_ == 0) open(root, false);
  else enter(root, fn);
  walk(fn);
}

void StateDict::flatten_any(const std::function<void(const Leaf&)>& fn) {
  enter(graph_.root(), fn);
  walk(fn);
}

void StateDict::walk(const std::function<void(const Leaf&)>& fn) {
  while (!open_.empty()) {
    Open& top = open_.back();
    path_.resize(prefix_ + open_.size() - 1);
    Value key, value;
    bool more = top.items.next(top.is_list ? value : key);
    if (more && top.in_pairs) {
      auto pair = m_.items(key);
      more = pair.next(key) && pair.next(value);
    } else if (more && !top.is_list) {
      more = top.items.next(value);
    }
    if (!more) {
      on_path_.erase(top.v.payload);
      open_.pop_back();
      continue;
    }
    if (top.is_list) path_.push_back({.name = {}, .position = top.position++});
    else path_.push_back(key_of(key));
    // A few kilobytes may stand for 2^1000 leaves, since containers that the memo shares are walked at each occurrence. Without sharing
    // there are no more values to visit than the pickle has.
    const uint64_t max = m_.arena_cells() + limits_.shared_visits;
    if (++visits_ > max)
      fail(ProblemId::over_limit, place_, "containers that are shared and add up to more values", "at most " + std::to_string(max));
    enter(value, fn);
  }
}

void StateDict::refuse_root(const Value& root) const {
  const TensorCall call = tensor_call(root);
  const std::string name = graph_.global_of(root);
  Problem p = make_problem(ProblemId::torch_no_state_dict, place_, m_.describe(root), "a dict of tensors");
  if (call.kind != Means::kOther || call.opaque) {
    p.got = "a single tensor";
    p.hint = "save it under a name: torch.save({'name': torch.load(FILE)}, NEW)";
  } else if (!name.empty()) {
    p.got = "an object of " + name;
    p.hint = "save what is in it: torch.save(torch.load(FILE, weights_only=False).state_dict(), NEW)";
  } else if (root.kind == Kind::kList || root.kind == Kind::kTuple) {
    p.hint = "save it under a name: torch.save({'name': torch.load(FILE)}, NEW)";
  }
  throw Error(std::move(p));
}

bool holds_tensors_in_own_way(const PickleGraph& graph, const Limits& limits) {
  const Value& root = graph.root();
  if (root.kind == Kind::kObject && static_cast<CallForm>(root.tag) == CallForm::kReduce) {
    bool gets_tensors = false;
    std::vector<bool> seen;
    graph.visit(graph.machine().arguments_of(root), seen, [&](const Value& v) { gets_tensors |= graph.is_persistent(v); });
    if (gets_tensors) return true;
  }
  const Place place;
  const StateDict values(graph, place, limits);
  bool holds_odd = false;
  graph.visit([&](const Value& v) { holds_odd |= v.kind == Kind::kObject && values.tensor_call(v).opaque; });
  return holds_odd;
}

}  // namespace dcp
