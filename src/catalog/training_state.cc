#include "catalog/training_state.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include "catalog/optimizer_state.h"

namespace dcp {
namespace {

constexpr std::string_view kStateNames[] = {"optim", "optimizer", "optimizers", "optimizer_state", "optimizer_states", "opt_state",
                                            "opt_states", "lr_scheduler", "lr_schedulers", "train_state", "dataloader", "dataloaders",
                                            "rng_state", "rng_states", "random_states", "ema_optimizer", "global_step",
                                            "rerun_state_machine_state", "hparams",
                                            // What the tutorials of torch and Lightning's .ckpt files call the same.
                                            "optimizer_state_dict", "optim_state_dict", "scheduler_state_dict", "lr_scheduler_state_dict",
                                            "scaler_state_dict", "hyper_parameters", "hparams_name", "pytorch-lightning_version"};
// Modules and parameters have these names as well.
constexpr std::string_view kDoubtfulNames[] = {"scheduler", "schedulers", "scaler", "rng",      "epoch",
                                               "step",      "iteration",  "loops",  "callbacks"};
constexpr std::string_view kOptimizerWords[] = {"opt", "optim", "optimizer", "optimizers", "adam", "adamw", "sgd", "muon"};
// Below these nothing is judged by its name; a state_dict may be a trainer's.
constexpr std::string_view kModelNames[] = {"model", "model_state_dict", "model_state", "model_parts", "module", "net", "network"};
constexpr std::string_view kStateDict = "state_dict";
constexpr std::string_view kExtraState = "_extra_state";  // an object that a module keeps

// A component may be shared by many keys and be long: only so much of its end is looked at.
constexpr size_t kLookedAt = 256;
std::string_view end_of(std::string_view name) { return name.substr(name.size() - std::min(name.size(), kLookedAt)); }

template <class List>
bool is_one_of(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != std::ranges::end(list);
}

// Without a number at its end: optimizer_0, optimizer1.
std::string_view without_number(std::string_view name) {
  if (name.size() > kLookedAt) return name;
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == name.size() || digits == 0) return name;
  name = name.substr(0, digits);
  return name.size() > 1 && name.ends_with('_') ? name.substr(0, name.size() - 1) : name;
}

bool is_model_name(std::string_view name) { return is_one_of(kModelNames, without_number(name)); }
bool is_root_name(std::string_view name) { return is_model_name(name) || name == kStateDict; }

// optim_g, actor_optimizer, optimizerG, adam, torch_rng_state
bool is_named_like_state(std::string_view name) {
  name = without_number(end_of(name));
  if (is_one_of(kDoubtfulNames, name) || name.ends_with("_rng_state") || name.ends_with("_rng_states")) return true;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('_', at), name.size());
    std::string_view word = name.substr(at, end - at);
    if (word.size() > 1 && word.back() >= 'A' && word.back() <= 'Z') word.remove_suffix(1);
    if (is_one_of(kOptimizerWords, word)) return true;
    at = end + 1;
  }
  return false;
}

bool has_dots(std::string_view name) { return end_of(name).find('.') != std::string_view::npos; }

// What parameters and buffers of most modules are called.
bool is_parameter_name(std::string_view name) {
  name = end_of(name);
  const std::string_view word = name.substr(name.rfind('.') + 1);
  return word.ends_with("weight") || word.ends_with("bias") || word == "running_mean" || word == "running_var";
}

// A dict or list of the state dict.
struct Dir {
  uint32_t parent = 0;
  uint32_t depth = 0;
  std::string_view name;       // empty for a position
  bool is_numbered = false;    // a position of a list, or an integer
  bool in_model = false;       // it or one above is called like a model
  bool in_state_dict = false;  // ... or state_dict
  bool is_state = false;       // by its name or that of one above
  uint32_t doubtful = kNone;   // the highest one that has a name of state which modules have, too
  // Of all below:
  uint64_t keys = 0, tensors = 0, state_keys = 0, state_tensors = 0;
  uint64_t module_like = 0;  // tensors, not state, named as a module names its parameters,
  uint64_t wide = 0;         // or floating with two dims and more
  bool holds_named = false;  // something called like a model, with tensors
  // Of its own leaves:
  uint64_t state_leaves = 0;
  uint64_t objects = 0;     // not state, and no module's _extra_state
  uint64_t parameters = 0;  // tensors, not state, named as a module's, or of two dims and more;
  uint64_t fqns = 0;        // the same with dots in their names;
  uint64_t floats = 0;      // floating ones

  uint64_t open_tensors() const { return tensors - state_tensors; }
  bool all_state() const { return keys > 0 && (tensors > 0 ? state_tensors == tensors : state_keys == keys); }
};

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

class Sorter {
 public:
  explicit Sorter(const Catalog& c) : c_(c), signs_(c.order.size()), dir_of_(c.order.size(), 0), optimizer_(find_optimizer_keys(c)) {}

  TrainingState sort() {
    make_dirs();
    for (size_t k = 0; k < signs_.size(); ++k)
      if (optimizer_[k].sign != OptimizerSign::kAbsent)
        signs_[k] = optimizer_[k].sign == OptimizerSign::kParamGroups ? StateSign::kParamGroups : StateSign::kSlots;
    judge_names();
    count();
    link_children();
    find_models();
    place();
    return std::move(out_);
  }

 private:
  const Tensor* tensor(size_t k) const { return c_.order[k] < 0 ? nullptr : &c_.tensors[static_cast<size_t>(c_.order[k])]; }
  const Blob& blob(size_t k) const { return c_.blobs[static_cast<size_t>(~c_.order[k])]; }
  std::string_view key(size_t k) const { return tensor(k) ? c_.key(*tensor(k)) : c_.key(blob(k)); }
  PathRange path(size_t k) const { return tensor(k) ? tensor(k)->path : blob(k).path; }
  // The last component; the key where there is no planner data.
  std::string_view leaf(size_t k) const {
    const PathRange p = path(k);
    if (p.count == 0) return key(k);
    const PathElement e = c_.path_elements[p.first + p.count - 1];
    return e.is_position() ? std::string_view() : c_.strings[e.name_id()];
  }
  // The same as a number; kNone for a position.
  StringId leaf_id(size_t k) const {
    const PathRange p = path(k);
    if (p.count == 0) return tensor(k) ? tensor(k)->key : blob(k).key;
    const PathElement e = c_.path_elements[p.first + p.count - 1];
    return e.is_position() ? kNone : e.name_id();
  }
  bool is_float(const Tensor& t) const { return t.dtype_known && facts_of(t.dtype).kind == DTypeKind::kFloat; }

  // ---- the tree of components

  uint32_t child(uint32_t parent, uint64_t code, std::string_view name, bool is_numbered) {
    const auto [it, fresh] = numbers_.try_emplace({parent, code}, static_cast<uint32_t>(dirs_.size()));
    if (!fresh) return it->second;
    const Dir above = dirs_[parent];
    Dir& d = dirs_.emplace_back(Dir{.parent = parent, .depth = above.depth + 1, .name = name, .is_numbered = is_numbered});
    d.in_model = above.in_model || is_model_name(name);
    d.in_state_dict = above.in_state_dict || name == kStateDict;
    d.is_state = above.is_state || (!d.in_model && names_training_state(name));
    d.doubtful = above.doubtful;
    if (d.doubtful == kNone && !d.in_model && !d.in_state_dict && is_named_like_state(name)) d.doubtful = it->second;
    return it->second;
  }

  void make_dirs() {
    dirs_.emplace_back();
    std::unordered_map<std::string_view, uint64_t> words;
    for (size_t k = 0; k < signs_.size(); ++k) {
      const PathRange p = path(k);
      uint32_t at = 0;
      for (uint32_t i = p.first; i + 1 < p.first + p.count; ++i) {
        const PathElement e = c_.path_elements[i];
        at = e.is_position() ? child(at, e.list_position() << 1 | 1, {}, true)
                             : child(at, uint64_t{e.name_id()} << 1, c_.strings[e.name_id()], e.is_integer());
      }
      // Without planner data there is one level, the words before the first dots; it is for names, and nothing is a root.
      if (!c_.has_planner_data)
        if (const size_t dot = key(k).find('.'); dot != std::string_view::npos) {
          const std::string_view word = key(k).substr(0, dot);
          at = child(0, words.try_emplace(word, words.size()).first->second << 1, word, false);
        }
      dir_of_[k] = at;
    }
    numbers_ = {};
  }

  // ---- names

  bool leaf_names_state(size_t k) const { return !dirs_[dir_of_[k]].in_model && names_training_state(leaf(k)); }
  // A counter has one element; a parameter called `step` may have more, and stands among others.
  bool leaf_may_name_state(size_t k, bool among_parameters) const {
    const Dir& d = dirs_[dir_of_[k]];
    if (d.in_model || d.in_state_dict || !is_named_like_state(leaf(k))) return false;
    return !tensor(k) || !is_float(*tensor(k)) || (tensor(k)->rank == 0 && !among_parameters);
  }

  void judge_names() {
    // Of each dir: whether it has parameters of a module itself; whether it or one below has; whether something in or below it is state.
    std::vector<bool> parameters(dirs_.size()), modules, has_state(dirs_.size());
    for (size_t k = 0; k < signs_.size(); ++k) {
      const uint32_t at = dir_of_[k];
      const Dir& d = dirs_[at];
      if (!signs_[k] && (d.is_state || leaf_names_state(k))) signs_[k] = StateSign::kName;
      if (!signs_[k] && tensor(k) && is_parameter_name(leaf(k))) parameters[at] = true;
      if (signs_[k]) has_state[at] = true;
      const bool object_of_trainer = !tensor(k) && (d.doubtful != kNone || leaf_may_name_state(k, false));
      const bool below_root = c_.has_planner_data && tensor(k) && (d.in_model || d.in_state_dict);
      is_trainers_ = is_trainers_ || signs_[k] || object_of_trainer || below_root;
    }
    if (!is_trainers_) return;
    modules = parameters;
    for (size_t d = dirs_.size(); d-- > 1;) {
      if (modules[d]) modules[dirs_[d].parent] = true;
      if (has_state[d]) has_state[dirs_[d].parent] = true;
    }
    for (size_t k = 0; k < signs_.size(); ++k) {
      if (signs_[k]) continue;
      const uint32_t at = dir_of_[k], doubtful = dirs_[at].doubtful;
      const bool may_count = !tensor(k) || !parameters[at] || has_state[at];  // else it is a dict of a module
      if (doubtful != kNone ? !modules[doubtful] : may_count && leaf_may_name_state(k, parameters[at])) signs_[k] = StateSign::kName;
    }
  }

  // ---- which subtree is the model

  void count() {
    for (size_t k = 0; k < signs_.size(); ++k) count(k, dirs_[dir_of_[k]]);
    for (size_t i = dirs_.size(); i-- > 1;) {
      const Dir& d = dirs_[i];
      Dir& up = dirs_[d.parent];
      up.keys += d.keys;
      up.tensors += d.tensors;
      up.state_keys += d.state_keys;
      up.state_tensors += d.state_tensors;
      up.module_like += d.module_like;
      up.wide += d.wide;
      up.holds_named = up.holds_named || d.holds_named || (is_root_name(d.name) && d.open_tensors() > 0);
    }
  }
  void count(size_t k, Dir& d) {
    const Tensor* t = tensor(k);
    const std::string_view name = leaf(k);
    ++d.keys;
    d.tensors += t != nullptr;
    if (signs_[k]) {
      ++d.state_keys;
      ++d.state_leaves;
      d.state_tensors += t != nullptr;
      return;
    }
    const bool dotted = has_dots(name);
    d.objects += !t && !dotted && !name.ends_with(kExtraState);
    if (!t) return;
    const bool module_like = dotted || is_parameter_name(name);
    const bool wide = t->rank >= 2 && is_float(*t);
    d.module_like += module_like;
    d.wide += wide;
    d.parameters += module_like || wide;
    d.fqns += dotted && (wide || is_parameter_name(name));
    d.floats += is_float(*t);
  }

  void link_children() {
    first_child_.assign(dirs_.size() + 1, 0);
    for (size_t i = 1; i < dirs_.size(); ++i) ++first_child_[dirs_[i].parent + 1];
    for (size_t i = 1; i < first_child_.size(); ++i) first_child_[i] += first_child_[i - 1];
    children_.resize(dirs_.size() - 1);
    std::vector<uint32_t> next(first_child_.begin(), first_child_.end() - 1);
    for (uint32_t i = 1; i < dirs_.size(); ++i) children_[next[dirs_[i].parent]++] = i;
  }
  std::span<const uint32_t> children(uint32_t d) const {
    return std::span(children_).subspan(first_child_[d], first_child_[d + 1] - first_child_[d]);
  }

  // Whether what stands in it shows that it is a dict of a trainer, and no part of a module.
  bool is_trainers(uint32_t at) const {
    const Dir& d = dirs_[at];
    return d.state_leaves > 0 || (d.objects > 0 && !d.in_model) ||
           std::ranges::any_of(children(at), [&](uint32_t c) { return dirs_[c].all_state(); });
  }

  // A subtree that is a model or a piece of one.
  struct Root {
    uint32_t dir;
    uint32_t model;     // pieces of one model have the same number
    uint32_t stripped;  // components that load_state_dict does not know
    uint32_t named;     // the dir whose path names the model
  };

  void find_models() {
    if (!c_.has_planner_data) return add_model(0);
    std::vector<uint32_t> open{0};
    while (!open.empty()) {
      uint32_t root = open.back();  // the deepest that is sure to be one
      open.pop_back();
      for (uint32_t at = root;;) {
        const std::vector<uint32_t> parts = parts_of(at);
        if (parts.empty()) {
          add_model(root);
          break;
        }
        if (parts.size() > 1 && are_pieces(parts)) {
          add_pieces(at, parts);
          break;
        }
        if (parts.size() > 1) {
          open.insert(open.end(), parts.begin(), parts.end());
          break;
        }
        const bool sure = is_root_name(dirs_[parts[0]].name) || is_trainers(at);
        at = parts[0];
        if (sure) root = at;
      }
    }
  }
  // The pieces in a list have numbers for names. If they have keys in common, there is no dict that is the model; the list stays one.
  void add_model(uint32_t root) {
    std::vector<uint32_t> pieces;
    for (const uint32_t c : children(root))
      if (dirs_[c].open_tensors() > 0) pieces.push_back(c);
    const bool is_list = root != 0 && !pieces.empty() && dirs_[root].parameters == 0 &&
                         std::ranges::all_of(pieces, [&](uint32_t c) { return dirs_[c].is_numbered; });
    if (is_list && are_disjoint(pieces)) return add_pieces(root, pieces);
    const uint32_t named = is_list && dirs_[pieces[0]].name.empty() ? dirs_[root].parent : root;
    roots_.push_back({root, models_++, dirs_[named].depth, named});
  }
  void add_pieces(uint32_t at, std::span<const uint32_t> pieces) {
    for (const uint32_t p : pieces) roots_.push_back({p, models_, dirs_[p].depth, at});
    ++models_;
  }

  // The children of a dict of a trainer that hold models. None: the dict itself is a module's, as far as can be seen.
  std::vector<uint32_t> parts_of(uint32_t at) {
    const Dir& d = dirs_[at];
    std::vector<uint32_t> named, others;
    for (const uint32_t c : children(at))
      if (dirs_[c].open_tensors() > 0) (is_root_name(dirs_[c].name) && !d.in_model ? named : others).push_back(c);
    if (named.empty() && others.empty()) return {};
    if (d.fqns > 0 && !named.empty()) out_.has_parameters_beside = true;
    if (d.fqns > 0 || (named.empty() && (d.parameters > 0 || (d.floats > 0 && !is_trainers(at))))) return {};
    if (named.empty() && std::ranges::all_of(others, [&](uint32_t c) { return dirs_[c].is_numbered; })) return {};

    std::vector<uint32_t> parts = named;
    const auto is_module_like = [&](uint32_t c) { return dirs_[c].module_like > 0 || (named.empty() && dirs_[c].wide > 0); };
    std::ranges::copy_if(others, std::back_inserter(parts), is_module_like);
    if (!named.empty()) add_alike(named, others, parts);
    if (parts.empty()) parts = others;
    if (parts.size() == 1) return parts;
    const auto all = [&](auto&& is) { return std::ranges::all_of(parts, is); };
    const bool several = !named.empty() || are_pieces(parts) || is_trainers(at) || all([&](uint32_t c) { return dirs_[c].fqns > 0; }) ||
                         all([&](uint32_t c) { return dirs_[c].holds_named; });
    return several ? parts : std::vector<uint32_t>();
  }

  // For each key the one of `tops` that it lies below, as an index.
  std::vector<uint32_t> below(std::span<const uint32_t> tops) const {
    std::vector<uint32_t> of(dirs_.size(), kNone);
    for (uint32_t i = 0; i < tops.size(); ++i) of[tops[i]] = i;
    for (size_t i = 1; i < dirs_.size(); ++i)
      if (of[i] == kNone) of[i] = of[dirs_[i].parent];
    return of;
  }

  // Parameters of any name make a copy of a model (`ema`) where the model has the same ones. Asked once: the second time would be below a
  // model.
  void add_alike(std::span<const uint32_t> named, std::span<const uint32_t> others, std::vector<uint32_t>& parts) {
    if (others.empty() || asked_alike_) return;
    asked_alike_ = true;
    const std::vector<uint32_t> in_named = below(named), in_others = below(others);
    std::unordered_set<StringId> names;
    for (size_t k = 0; k < signs_.size(); ++k)
      if (tensor(k) && in_named[dir_of_[k]] != kNone) names.insert(leaf_id(k));
    std::vector<bool> alike(others.size());
    for (size_t k = 0; k < signs_.size(); ++k)
      if (const uint32_t i = in_others[dir_of_[k]];
          i != kNone && tensor(k) && !signs_[k] && leaf_id(k) != kNone && names.contains(leaf_id(k)))
        alike[i] = true;
    for (size_t i = 0; i < others.size(); ++i)
      if (alike[i] && dirs_[others[i]].module_like == 0) parts.push_back(others[i]);
  }

  // model0, model1: pieces of one model on the stages of a pipeline.
  bool are_pieces(std::span<const uint32_t> parts) {
    const std::string_view stem = without_number(dirs_[parts[0]].name);
    return std::ranges::all_of(parts, [&](uint32_t c) { return dirs_[c].name != stem && without_number(dirs_[c].name) == stem; }) &&
           are_disjoint(parts);
  }
  // Whether no key is in two of them. Asked of one list of dirs: the answer takes a look at every key.
  bool are_disjoint(std::span<const uint32_t> parts) {
    if (parts[0] == disjoint_) return true;
    if (asked_disjoint_) return false;
    asked_disjoint_ = true;
    const std::vector<uint32_t> in = below(parts);
    std::unordered_map<StringId, uint32_t> names;
    for (size_t k = 0; k < signs_.size(); ++k)
      if (const uint32_t i = in[dir_of_[k]]; i != kNone && !signs_[k] && names.try_emplace(leaf_id(k), i).first->second != i) return false;
    disjoint_ = parts[0];
    return true;
  }

  // ---- the answer

  // The components of the path down to dir `d`; of a path too long to be typed the key.
  std::string up_to(size_t k, uint32_t d) const {
    constexpr size_t kLongest = 4096;
    const PathRange p = path(k);
    if (p.count == 0) return std::string(dirs_[d].name);
    std::string text;
    for (uint32_t i = p.first; i < p.first + dirs_[d].depth; ++i) {
      const PathElement e = c_.path_elements[i];
      text += i == p.first ? "" : ".";
      if (e.is_position()) text += std::to_string(e.list_position());
      else text += c_.strings[e.name_id()];
      if (text.size() > kLongest) return std::string(key(k));
    }
    return text;
  }

  bool is_object_beside(size_t k) const {
    const std::string_view name = leaf(k);
    const uint32_t d = dir_of_[k];
    return !tensor(k) && !name.ends_with(kExtraState) && (dirs_[d].tensors == 0 || (d == 0 && !has_dots(name)));
  }

  void place() {
    std::vector<uint32_t> dirs;
    for (const Root& r : roots_) dirs.push_back(r.dir);
    const std::vector<uint32_t> root_of = below(dirs);
    const bool none = is_trainers_ && dirs_[0].open_tensors() == 0;
    for (size_t k = 0; k < signs_.size(); ++k) {
      if (signs_[k]) continue;
      const uint32_t r = root_of[dir_of_[k]];
      if (none || r == kNone || (roots_[r].dir == 0 && is_trainers_ && is_object_beside(k))) signs_[k] = StateSign::kBeside;
    }
    find_tops();
    std::vector<int32_t> places(signs_.size()), number_of(models_, -1);
    for (size_t k = 0; k < signs_.size(); ++k) {
      if (signs_[k]) {
        places[k] = group_of(k);
        StateGroup& g = out_.groups[static_cast<size_t>(places[k])];
        g.sign = std::min(g.sign, *signs_[k]);
        add(k, g);
        ++out_.keys;
        continue;
      }
      const Root& root = roots_[root_of[dir_of_[k]]];
      int32_t& number = number_of[root.model];
      if (number < 0) {
        number = static_cast<int32_t>(out_.models.size());
        out_.models.push_back({.path = root.named == 0 ? "" : up_to(k, root.named), .components = root.stripped});
      }
      places[k] = ~number;
      add(k, out_.models[static_cast<size_t>(number)]);
    }
    answer(places);
  }
  template <class Sums>
  void add(size_t k, Sums& sums) const {
    ++sums.keys;
    if (!tensor(k)) return;
    ++sums.tensors;
    sums.tensor_bytes += c_.tensor_bytes(*tensor(k));
  }

  // For each dir the highest one at or above it in which nothing is model.
  void find_tops() {
    std::vector<uint64_t> state(dirs_.size());
    for (size_t k = 0; k < signs_.size(); ++k) state[dir_of_[k]] += signs_[k].has_value();
    for (size_t i = dirs_.size(); i-- > 1;) state[dirs_[i].parent] += state[i];
    tops_.assign(dirs_.size(), kNone);
    for (uint32_t i = 1; i < dirs_.size(); ++i) {
      tops_[i] = tops_[dirs_[i].parent];
      if (tops_[i] == kNone && state[i] == dirs_[i].keys) tops_[i] = i;
    }
    group_of_dir_.assign(dirs_.size(), -1);
  }

  int32_t group_of(size_t k) {
    const uint32_t top = tops_[dir_of_[k]];
    if (top != kNone && group_of_dir_[top] >= 0) return group_of_dir_[top];
    // Below no such dir: keys with dots, of which the structure says where the optimizer begins, or a single key.
    std::string path = top != kNone ? up_to(k, top) : std::string(optimizer_[k].top > 0 ? key(k).substr(0, optimizer_[k].top) : key(k));
    const auto [it, fresh] = group_numbers_.try_emplace(std::move(path), static_cast<int32_t>(out_.groups.size()));
    if (fresh) out_.groups.push_back({.path = it->first, .sign = StateSign::kBeside});
    if (top != kNone) group_of_dir_[top] = it->second;
    return it->second;
  }

  // Groups and models sorted by their paths, and the keys' places in them.
  void answer(const std::vector<int32_t>& places) {
    const auto sorted = [](auto& list) {
      std::vector<uint32_t> order(list.size()), number(list.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, {}, [&](uint32_t i) -> const std::string& { return list[i].path; });
      std::remove_reference_t<decltype(list)> out;
      for (uint32_t i = 0; i < order.size(); ++i) {
        number[order[i]] = i;
        out.push_back(std::move(list[order[i]]));
      }
      list = std::move(out);
      return number;
    };
    const std::vector<uint32_t> groups = sorted(out_.groups), models = sorted(out_.models);
    out_.of_tensor.resize(c_.tensors.size());
    out_.of_blob.resize(c_.blobs.size());
    for (size_t k = 0; k < places.size(); ++k) {
      const int32_t place = places[k] < 0 ? ~static_cast<int32_t>(models[static_cast<size_t>(~places[k])])
                                          : static_cast<int32_t>(groups[static_cast<size_t>(places[k])]);
      (tensor(k) ? out_.of_tensor[static_cast<size_t>(c_.order[k])] : out_.of_blob[static_cast<size_t>(~c_.order[k])]) = place;
    }
  }

  const Catalog& c_;
  std::vector<std::optional<StateSign>> signs_;  // by position in the order, as the next two
  std::vector<uint32_t> dir_of_;
  std::vector<OptimizerKey> optimizer_;
  std::vector<Dir> dirs_;  // parents before children; the first is the root
  std::unordered_map<Step, uint32_t, StepHash> numbers_;
  std::vector<uint32_t> first_child_, children_;
  std::vector<Root> roots_;  // none below another
  uint32_t models_ = 0;
  std::vector<uint32_t> tops_;
  std::vector<int32_t> group_of_dir_;
  std::unordered_map<std::string, int32_t> group_numbers_;
  bool is_trainers_ = false;  // something shows that a trainer saved the checkpoint
  bool asked_alike_ = false, asked_disjoint_ = false;
  uint32_t disjoint_ = kNone;  // the first of dirs that have no key in common
  TrainingState out_;
};

}  // namespace

TrainingState find_training_state(const Catalog& catalog) { return Sorter(catalog).sort(); }

bool names_training_state(std::string_view component) { return is_one_of(kStateNames, without_number(component)); }

}  // namespace dcp
