#include "select/training_state.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text.h"

namespace dcp {
namespace {

template <class... Names>
constexpr auto names(Names... all) {
  std::array<std::string_view, sizeof...(all)> list{all...};
  std::ranges::sort(list);
  return list;
}
// Rule 1. Slots of torch.optim, Adafactor, bitsandbytes, Muon, Lion, Shampoo, Megatron, by names that a module would hardly have; and what may be a
// tensor below param_groups, where a module can have a list of parameters of that name.
constexpr auto kSlots =
    names("acc_delta", "exp_avg", "exp_avg_diff", "exp_avg_res", "exp_avg_slow", "exp_avg_sq", "exp_avg_sq_col", "exp_avg_sq_row",
          "exp_inf", "fp32_param", "max_exp_avg_sq", "momentum_buffer", "prev_flat_grad", "square_avg");
constexpr auto kHyperparameters = names("betas", "dampening", "eps", "initial_lr", "lr", "momentum", "nesterov", "params", "weight_decay");
// Rule 2: dicts, and first words of flat keys; objects; the next where a model stands elsewhere, with other words before or behind.
constexpr auto kStateNames = names("dataloader", "frozen_param_fragments", "lr_scheduler", "lr_schedulers", "opt_state", "optim",
                                   "optim_state", "optim_state_dict", "optimizer", "optimizer_state", "optimizer_state_dict",
                                   "optimizer_states", "optimizers", "rng_state", "rng_states", "train_state");
constexpr auto kCounters = names("epoch", "global_step", "iteration", "step");
constexpr auto kOptimizers = names("adafactor", "adam", "adamw", "lion", "muon", "opt", "optim", "optimizer", "sgd", "shampoo");
// Rule 3: dicts.
constexpr auto kModels =
    names("model", "model_parts", "model_state", "model_state_dict", "module", "net", "network", "params", "state_dict");

constexpr size_t kLongestName = 64;    // a component may be shared by many keys: a longer one is in no list
constexpr size_t kLongestPath = 4096;  // a longer one is never typed

template <class List>
bool is_in(const List& list, std::string_view name) {
  return std::ranges::binary_search(list, name);
}
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool has_dots(std::string_view name) { return name.find('.') != name.npos; }
// What those of most modules end with.
bool is_parameter_name(std::string_view name) {
  return name.ends_with("weight") || name.ends_with("bias") || name.ends_with("running_mean") || name.ends_with("running_var");
}

std::string_view without_number(std::string_view name) {
  if (name.size() > kLongestName || name.empty() || !is_digit(name.back())) return name;
  while (!name.empty() && is_digit(name.back())) name.remove_suffix(1);
  if (name.size() > 1 && name.ends_with('_')) name.remove_suffix(1);
  return name;
}
bool names_model(std::string_view name) { return is_in(kModels, without_number(name)); }

struct KeySign {
  StateSign sign = StateSign::kOpen;
  uint32_t top = 0;  // bytes of the key that name the whole optimizer; 0: the key itself does
  explicit operator bool() const { return sign != StateSign::kOpen; }
};

// Keys of a catalog by their position in its order.
class Keys {
 public:
  explicit Keys(const Catalog& c) : c_(c), count_(c.order.size()) {}

 protected:
  const Tensor* tensor(size_t k) const { return c_.order[k].is_blob() ? nullptr : &c_.tensors[c_.order[k].tensor()]; }
  std::string_view key(size_t k) const { return c_.key(c_.order[k]); }
  PathRange path(size_t k) const { return tensor(k) ? tensor(k)->path : c_.blobs[c_.order[k].blob()].path; }
  std::string_view name(PathElement e) const { return e.is_position() ? std::string_view() : c_.strings[e.name_id()]; }
  std::string_view last(PathRange p) const { return name(c_.path_elements[p.first + p.count - 1]); }
  // The last component; the key itself without paths, and in place of what many keys may share.
  std::string_view leaf(size_t k) const {
    const std::string_view text = path(k).count == 0 ? key(k) : last(path(k));
    return text.size() > key(k).size() ? key(k) : text;
  }

  const Catalog& c_;
  const size_t count_;
};

// Rule 1: the keys that an optimizer keeps, by their structure alone. A `state` below a `model` is a module.
//   param_groups, and the `state` beside it
//   state.<tensor>.<slot>, state.<slot>.<tensor>, and all else below that `state`
//   <tensor>.<slot>, <slot>.<tensor>, where <tensor> is a key, too
class OptimizerKeys : Keys {
 public:
  explicit OptimizerKeys(const Catalog& c) : Keys(c), signs_(count_) {}

  std::vector<KeySign> find() {
    for (size_t k = 0; k < count_; ++k) look(k);
    for (size_t k = 0; k < count_ && !optimizers_.empty(); ++k)
      for_words(key(k), [&](const Word& w) {
        const auto found = optimizers_.find(w.through);
        if (found == optimizers_.end()) return true;
        signs_[k] = {found->second, static_cast<uint32_t>(w.begin > 0 ? w.begin - 1 : w.text.size())};
        return false;
      });
    return std::move(signs_);
  }

 private:
  // A key is cut at its dots. A prefix of whole words is known by its hash (FNV-1a), so that all those of a key take time in proportion to its bytes.
  static uint64_t extended(uint64_t hash, std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash;
  }
  struct Word {
    std::string_view text, before;    // what the key has before it, without the dot
    size_t begin = 0;                 // in the key
    uint64_t above = 0, through = 0;  // hashes of what ends before it, with the dot, and with it
  };
  // Calls fn(word) for each word in order until it returns false.
  template <class Fn>
  static void for_words(std::string_view key, Fn&& fn) {
    uint64_t above = 0xcbf29ce484222325;
    for (size_t at = 0, end = 0; at <= key.size(); at = end + 1) {
      end = std::min(key.find('.', at), key.size());
      const std::string_view text = key.substr(at, end - at);
      const Word w{text, key.substr(0, at - (at > 0)), at, above, extended(above, text)};
      if (!fn(w)) return;
      above = extended(w.through, ".");
    }
  }

  void look(size_t k) {
    const std::string_view text = key(k);
    std::string_view next;          // the word below the deepest `state` so far,
    uint64_t state = 0, below = 0;  // which has this hash, and so many words below it
    bool below_model = false;
    for_words(text, [&](const Word& w) {
      const size_t end = w.begin + w.text.size();
      if (w.text == "param_groups") {
        if (tensor(k) && !is_in(kHyperparameters, text.substr(text.rfind('.') + 1))) return false;
        optimizers_[w.through] = optimizers_[extended(w.above, "state")] = StateSign::kParamGroups;
        return false;
      }
      // Nothing else has a key below that of a tensor; no module has a child in the place of its weight.
      const auto is_of_tensor = [&] { return w.begin > 0 && (is_parameter_name(w.before) || c_.has_key(w.before)); };
      if (is_slot(w.text)) {
        const bool is_last = end == text.size();
        if (state != 0 && (below > 0 ? is_tensors(k, w, next, below) : !is_last)) optimizers_.try_emplace(state, StateSign::kSlots);
        else if (is_of_tensor()) signs_[k].sign = StateSign::kSlots;
        else if (!is_last && c_.has_key(text.substr(end + 1))) signs_[k] = {StateSign::kSlots, static_cast<uint32_t>(end)};
        return false;
      }
      if (w.text == "step" && end == text.size() && (!tensor(k) || c_.elements(*tensor(k)) == 1)) {
        const bool of_number = below == 1 && is_number(next) && !c_.has_key(std::string(text.substr(0, w.begin)) + "weight");
        if (of_number || (state != 0 && is_parameter_name(w.before))) optimizers_.try_emplace(state, StateSign::kSlots);
        else if (is_of_tensor()) signs_[k].sign = StateSign::kSlots;
      }
      if (w.text == "state" && !below_model) state = w.through, below = 0;
      else if (state != 0 && below++ == 0) next = w.text;
      below_model = below_model || (state == 0 && names_model(w.text) && w.text != "state_dict");
      return true;
    });
  }

  // Whether the slot `w` below a `state` is an optimizer's: of a numbered parameter, of one that is called so, or a key of the parameter's own
  // dict. A module called `state` may have it in a buffer, and trainers keep models below a `state`, too.
  bool is_tensors(size_t k, const Word& w, std::string_view next, uint64_t below) const {
    return (below == 1 && is_number(next)) || is_parameter_name(w.before) ||
           (path(k).count >= 3 && !names_model(next) && last(path(k)) == w.text);
  }

  std::vector<KeySign> signs_;
  std::unordered_map<uint64_t, StateSign> optimizers_;  // by the hash of a prefix, below which all is an optimizer's
};

class Sorter : Keys {
 public:
  explicit Sorter(const Catalog& c) : Keys(c), signs_(OptimizerKeys(c).find()), dir_of_(count_) {}

  TrainingState sort() {
    make_dirs();
    sign_names();
    find_models();
    join_pieces();
    place();
    find_doubtful();
    return std::move(out_);
  }

 private:
  // A dict or list of the state dict; parents come before children, the first is the state dict itself.
  struct Dir {
    uint32_t parent = 0, depth = 0;
    PathElement element = PathElement::position(0);
    uint32_t alike = 0;  // the first dir whose path differs in numbers alone
    // Named like a model; or below such a name, but for a `state_dict`, which may be a trainer's; with such a name in it.
    bool is_named = false, below_named = false, has_named = false;
    bool in_optimizer = false, in_extra_state = false;
    StateSign sign = StateSign::kOpen;
    // Tensors that are not state: in it, and some with dots in their names; dirs in it that have some at or below them, and the first of these.
    bool has_fqns = false;
    uint32_t own = 0, open_dirs = 0, open_dir = 0;
    uint64_t keys = 0, tensors = 0;  // all, at or below it
    // The root of the model that it belongs to; of a root itself, that of the model's first piece, the dict around all of it, and the rule.
    uint32_t model = kNone, around = kNone;
    ModelSign rule{};
  };
  // A group, or what a model has below one root.
  struct Part {
    StateSign sign = StateSign::kOpen;
    uint64_t keys = 0, tensors = 0, bytes = 0;
    int32_t place = 0;
  };
  using Step = std::pair<uint32_t, uint64_t>;
  struct StepHash {
    size_t operator()(const Step& step) const {
      const uint64_t h = (step.second ^ uint64_t{step.first} << 40) * 0x9E3779B97F4A7C15u;
      return (h ^ h >> 29) * 0xBF58476D1CE4E5B9u >> 16;
    }
  };

  Dir& dir(size_t k) { return dirs_[dir_of_[k]]; }
  const Dir& dir(size_t k) const { return dirs_[dir_of_[k]]; }
  bool is_open(size_t k) const { return tensor(k) && !signs_[k]; }
  bool is_fqn(size_t k) const { return has_dots(leaf(k)) && (is_parameter_name(leaf(k)) || tensor(k)->rank >= 2); }
  // By dir: those that have such a key, or one below them does.
  template <class Is>
  std::vector<bool> holding(const Is& is) const {
    std::vector<bool> holds(dirs_.size());
    for (size_t k = 0; k < count_; ++k)
      if (is(k)) holds[dir_of_[k]] = true;
    for (size_t d = dirs_.size(); d-- > 1;)
      if (holds[d]) holds[dirs_[d].parent] = true;
    return holds;
  }

  void make_dirs() {
    std::unordered_map<Step, uint32_t, StepHash> numbers, alike;
    std::unordered_map<std::string_view, uint64_t> stems;
    dirs_.emplace_back();
    for (size_t k = 0; k < count_; ++k) {
      const bool has_groups = signs_[k].sign == StateSign::kParamGroups;
      uint32_t at = 0;
      const PathRange p = path(k);
      for (uint32_t i = p.first; i + 1 < p.first + p.count; ++i) {
        const PathElement e = c_.path_elements[i];
        const uint64_t code = e.is_position() ? e.list_position() << 1 | 1 : uint64_t{e.name_id()} << 1;
        dirs_[at].in_optimizer = dirs_[at].in_optimizer || (has_groups && name(e) == "param_groups");
        const auto [it, fresh] = numbers.try_emplace({at, code}, static_cast<uint32_t>(dirs_.size()));
        if (fresh) {
          const std::string_view stem = without_number(name(e));
          const uint64_t like =
              stem.size() == name(e).size() && !e.is_position() ? code : stems.try_emplace(stem, stems.size()).first->second << 1 | 1;
          dirs_.push_back({.parent = at, .depth = dirs_[at].depth + 1, .element = e, .is_named = names_model(name(e))});
          dirs_[at].has_named = dirs_[at].has_named || dirs_.back().is_named;
          dirs_.back().alike = alike.try_emplace({dirs_[at].alike, like}, it->second).first->second;
        }
        at = it->second;
      }
      dirs_[at].in_optimizer = dirs_[at].in_optimizer || (has_groups && leaf(k).starts_with("param_groups"));
      dir_of_[k] = at;
    }
  }

  // Rule 2.
  void sign_names() {
    for (Dir& d : dirs_) {
      const Dir& up = dirs_[d.parent];
      const std::string_view text = name(d.element);
      d.below_named = up.below_named || (d.is_named && text != "state_dict");
      d.in_extra_state = up.in_extra_state || text.ends_with(kExtraState);
      d.in_optimizer = !d.below_named && (d.in_optimizer || up.in_optimizer || names_optimizer(text));
      d.sign = up.sign;
      if (d.sign != StateSign::kOpen || d.below_named) continue;
      const bool is_whole = text == "train_state" && d.has_named;  // JAX's TrainState
      d.sign = is_slot(text) ? StateSign::kSlots : names_training_state(text) && !is_whole ? StateSign::kName : StateSign::kOpen;
    }
    std::vector<bool> is_modules(dirs_.size());
    for (size_t k = 0; k < count_; ++k)
      if (is_open(k) && is_fqn(k)) is_modules[dir_of_[k]] = true;
    bool is_elsewhere = false;  // a model, outside of what is named like an optimizer
    for (size_t k = 0; k < count_; ++k) {
      const Dir& d = dir(k);
      if (!signs_[k] && !d.below_named) signs_[k] = d.sign != StateSign::kOpen ? KeySign{d.sign} : sign_by_name(k, is_modules[dir_of_[k]]);
      is_elsewhere = is_elsewhere || (is_open(k) && !d.in_optimizer && (d.below_named || is_fqn(k)));
    }
    for (size_t k = 0; k < count_ && is_elsewhere; ++k)
      if (!signs_[k] && dir(k).in_optimizer) signs_[k].sign = StateSign::kName;
    is_trainers_ = std::ranges::any_of(signs_, [](const KeySign& s) { return bool(s); });
  }

  // By its whole name, if no parameter of a module may be called so; of a flat key by the first word, or that behind Megatron-Core's `chained_0`.
  KeySign sign_by_name(size_t k, bool is_modules) const {
    const std::string_view text = leaf(k);
    size_t begin = 0, end = std::min(text.find('.'), text.size());
    if (end == text.size()) {
      const bool is_state = tensor(k) ? !is_modules && names_training_state(text) : names_training_state(text) || is_in(kCounters, text);
      return {is_state ? StateSign::kName : StateSign::kOpen};
    }
    if (without_number(text.substr(0, end)) == "chained") end = std::min(text.find('.', begin = end + 1), text.size());
    if (path(k).count > 1 || end == text.size() || !names_training_state(text.substr(begin, end - begin))) return {};
    return {StateSign::kName, static_cast<uint32_t>(end)};
  }

  void add_model(uint32_t d, ModelSign rule) {
    models_.push_back(d);
    dirs_[d].model = dirs_[d].around = d;
    dirs_[d].rule = rule;
  }

  // Rule 3, and what follows from it.
  void find_models() {
    for (size_t k = 0; k < count_; ++k) {
      Dir& d = dir(k);
      ++d.keys, d.tensors += tensor(k) != nullptr, d.own += is_open(k);
      d.has_fqns = d.has_fqns || (is_open(k) && !d.in_extra_state && is_fqn(k));
    }
    holds_dots_ = holding([&](size_t k) { return is_open(k) && has_dots(leaf(k)); });
    holds_fqns_ = holding([&](size_t k) { return dir(k).has_fqns; });
    const std::vector<bool> holds_open = holding([&](size_t k) { return is_open(k); });
    for (uint32_t d = static_cast<uint32_t>(dirs_.size()); d-- > 1;) {
      Dir& up = dirs_[dirs_[d].parent];
      up.keys += dirs_[d].keys, up.tensors += dirs_[d].tensors;
      if (holds_open[d]) ++up.open_dirs, up.open_dir = d;
    }
    if (!c_.has_planner_data) return add_model(0, ModelSign::kRest);
    for (uint32_t i = 0; i < dirs_.size(); ++i) {
      inherit(i);
      const Dir& d = dirs_[i];
      const bool is_around = is_around_one(d) && d.has_named;  // state_dict.model
      const bool is_named = d.is_named && holds_open[i] && !holds_fqns_[i] && d.model == kNone && !is_around;
      if (d.has_fqns || is_named) add_model(i, d.is_named ? ModelSign::kName : ModelSign::kTensorNames);
    }
    if (models_.empty()) find_rest();
    else find_second_models();
  }
  static bool is_around_one(const Dir& d) { return d.own == 0 && d.open_dirs == 1; }

  // A module's state dict is flat: dicts of tensors in it are none of its own, but for those that its get_extra_state() returned, and names with
  // dots that are no state dict by themselves.
  void inherit(uint32_t i) {
    Dir& d = dirs_[i];
    const uint32_t above = dirs_[d.parent].model;
    if (d.model != kNone || above == kNone) return;
    const bool may_be_in_it = d.in_extra_state || d.tensors == 0 || (holds_dots_[i] && !holds_fqns_[i]);
    if (may_be_in_it || d.parent != above || !dirs_[above].has_fqns) d.model = above;
  }

  // No dict is named like a model, and none has names with dots: the one dict of tensors beside what is a trainer's, or everything.
  void find_rest() {
    bool has_objects = false, has_dims = !is_trainers_;
    for (size_t k = 0; k < count_; ++k) {
      has_objects = has_objects || (!tensor(k) && dir_of_[k] == 0);
      has_dims = has_dims || (is_open(k) && tensor(k)->rank > 0);
    }
    const uint32_t root = is_around_one(dirs_[0]) && (is_trainers_ || has_objects) ? dirs_[0].open_dir : 0;
    if (root > 0 || has_dims) add_model(root, ModelSign::kRest);
    for (uint32_t d = 1; d < dirs_.size(); ++d) inherit(d);
  }

  // Rule 4: dicts with tensors that have parameters' names, or names of tensors of a model.
  void find_second_models() {
    std::unordered_set<std::string_view> names;
    for (size_t k = 0; k < count_; ++k)
      if (is_open(k) && dir(k).model != kNone && !leaf(k).empty()) names.insert(leaf(k));
    const std::vector<bool> is_second =
        holding([&](size_t k) { return is_open(k) && !dir(k).in_extra_state && (is_parameter_name(leaf(k)) || names.contains(leaf(k))); });
    std::vector<bool> holds_model(dirs_.size());
    for (uint32_t d = static_cast<uint32_t>(dirs_.size()); d-- > 1;)
      if (holds_model[d] || dirs_[d].model == d) holds_model[dirs_[d].parent] = true;
    for (uint32_t i = 1; i < dirs_.size(); ++i) {
      inherit(i);
      const Dir& d = dirs_[i];
      const bool is_around = is_around_one(d) && d.keys > dirs_[d.open_dir].keys;
      if (d.model == kNone && is_second[i] && !holds_model[i] && !is_around) add_model(i, ModelSign::kSecond);
    }
  }

  // The stages of a pipeline: model_parts.0, model_parts.1; pp_0.model, pp_1.model.
  void join_pieces() {
    struct Pieces {
      uint32_t first, around, count = 0;
      bool are_apart = true, are_alike = false;
    };
    std::unordered_map<uint32_t, Pieces> pieces;
    for (const uint32_t m : models_) {
      Pieces& p = pieces.try_emplace(dirs_[m].alike, Pieces{.first = m, .around = m}).first->second;
      ++p.count;
      for (uint32_t d = m; d != p.around;) {
        uint32_t& deeper = dirs_[d].depth > dirs_[p.around].depth ? d : p.around;
        deeper = dirs_[deeper].parent;
      }
    }
    std::unordered_map<std::string, uint32_t> first;
    for (size_t k = 0; k < count_ && pieces.size() < models_.size(); ++k) {
      const uint32_t m = dir(k).model;
      if (!is_open(k) || m == kNone) continue;
      Pieces& p = pieces.at(dirs_[m].alike);
      std::string name = std::to_string(p.first) + "." + std::string(leaf(k));
      p.are_apart = p.are_apart && first.try_emplace(name, m).first->second == m;
      std::erase_if(name, is_digit);
      p.are_alike = p.are_alike || first.try_emplace(std::to_string(p.first) + "#" + name, m).first->second != m;
    }
    for (const uint32_t m : models_)
      if (const Pieces& p = pieces.at(dirs_[m].alike); p.count > 1 && p.are_apart && p.are_alike)
        dirs_[m].model = p.first, dirs_[m].around = p.around;
  }

  // Rule 5.
  bool is_beside(size_t k) const {
    const Dir& d = dir(k);
    if (d.model == kNone) return true;
    if (tensor(k) || d.in_extra_state || leaf(k).ends_with(kExtraState)) return false;
    const bool is_on_top = dir_of_[k] == 0 && !has_dots(leaf(k));
    return d.model == 0 && is_trainers_ && (d.tensors == 0 || is_on_top);  // beside a state dict without a root
  }

  // Components joined with dots; of a path too long to be typed the key `k` below it.
  std::string text_of(uint32_t dir, size_t k) const {
    std::vector<uint32_t> way;
    for (uint32_t d = dir; d != 0; d = dirs_[d].parent) way.push_back(d);
    std::string text;
    for (size_t i = way.size(); i-- > 0 && text.size() <= kLongestPath;) {
      const PathElement e = dirs_[way[i]].element;
      text += (text.empty() ? "" : ".") + (e.is_position() ? std::to_string(e.list_position()) : std::string(name(e)));
    }
    return text.size() <= kLongestPath ? text : std::string(key(k));
  }

  void place() {
    for (size_t k = 0; k < count_; ++k)
      if (!signs_[k] && is_beside(k)) signs_[k].sign = StateSign::kBeside;
    const std::vector<bool> holds_model = holding([&](size_t k) { return !signs_[k]; });
    std::vector<uint32_t> top(dirs_.size(), kNone);  // the highest dir at or above it in which nothing is model
    for (uint32_t d = 1; d < dirs_.size(); ++d)
      if (top[d] = top[dirs_[d].parent]; top[d] == kNone && !holds_model[d]) top[d] = d;
    std::map<std::pair<std::string, uint32_t>, Part> parts;  // by path, and the root of a model
    std::vector<Part*> of_dir(dirs_.size()), of_key(count_);
    for (size_t k = 0; k < count_; ++k) {
      const KeySign sign = signs_[k];
      const uint32_t d = sign ? top[dir_of_[k]] : dirs_[dir(k).model].model;
      Part* part = d == kNone ? nullptr : of_dir[d];
      if (part == nullptr) {
        std::string path =
            d == kNone ? std::string(key(k).substr(0, sign.top > 0 ? sign.top : key(k).size())) : text_of(sign ? d : dirs_[d].around, k);
        part = &parts[{std::move(path), sign ? kNone : d}];
        if (d != kNone) of_dir[d] = part;
      }
      part->sign = std::min(part->sign, sign.sign);
      ++part->keys, part->tensors += tensor(k) != nullptr, part->bytes += tensor(k) ? c_.tensor_bytes(*tensor(k)) : 0;
      of_key[k] = part;
    }
    for (auto& [at, part] : parts) {
      const auto& [path, root] = at;
      if (root == kNone) {
        part.place = static_cast<int32_t>(out_.groups.size());
        out_.groups.push_back({path, part.sign, part.keys, part.tensors, part.bytes});
        out_.keys += part.keys;
      } else {
        part.place = ~static_cast<int32_t>(out_.models.size());
        out_.models.push_back({path, dirs_[root].rule, dirs_[root].depth, part.keys, part.tensors, part.bytes});
      }
    }
    out_.of_tensor.resize(c_.tensors.size());
    out_.of_blob.resize(c_.blobs.size());
    for (size_t k = 0; k < count_; ++k)
      (tensor(k) ? out_.of_tensor[c_.order[k].tensor()] : out_.of_blob[c_.order[k].blob()]) = of_key[k]->place;
  }

  uint64_t name_and_shape(std::string_view name, const Tensor& t) const {
    uint64_t hash = std::hash<std::string_view>{}(name);
    for (const int64_t size : c_.dims(t)) hash = (hash ^ static_cast<uint64_t>(size)) * 0x9E3779B97F4A7C15u;
    return hash;
  }
  // Calls fn(name) for the name and what is left of it without its first words, until it returns true.
  template <class Fn>
  static void for_endings(std::string_view name, int words, Fn&& fn) {
    for (size_t dot = 0; words-- >= 0 && !fn(name); name.remove_prefix(dot + 1))
      if (dot = name.find('.'); dot == name.npos || name.find('.', dot + 1) == name.npos) return;
  }

  void find_doubtful() {
    std::vector<std::pair<size_t, std::string_view>> repeats;  // and what may be the name of a tensor, or its end
    std::vector<size_t> others;
    for (size_t k = 0; k < count_; ++k) {
      if (!is_open(k)) continue;
      const std::string_view text = leaf(k), first = text.substr(0, text.find('.')), but_last = text.substr(0, text.rfind('.'));
      if (first.size() < text.size() && names_optimizer(first)) repeats.emplace_back(k, text.substr(first.size() + 1));
      else if (but_last.size() < text.size() && is_parameter_name(but_last)) repeats.emplace_back(k, but_last);
      else others.push_back(k);
    }
    if (repeats.empty()) return;
    std::unordered_map<uint64_t, uint64_t> named;
    uint64_t repeated = 0;
    for (const size_t k : others)
      for_endings(leaf(k), 2, [&](std::string_view name) { return ++named[name_and_shape(name, *tensor(k))], false; });
    std::set<std::string> globs;
    for (const auto& [k, name] : repeats)
      for_endings(name, 3, [&, k = k](std::string_view ending) {
        const auto found = named.find(name_and_shape(ending, *tensor(k)));
        if (found == named.end()) return false;
        repeated += std::exchange(found->second, 0);
        out_.doubtful.push_back(c_.order[k].tensor());
        const std::string_view text = leaf(k), before = text.substr(0, static_cast<size_t>(ending.data() - text.data()));
        const std::string_view first = text.substr(0, text.find('.') + 1), dir = key(k).substr(0, key(k).size() - text.size());
        if (before.empty()) globs.insert("*" + std::string(text.substr(ending.size())));
        else globs.insert(std::string(dir) + std::string(names_optimizer(first.substr(0, first.size() - 1)) ? first : before) + "*");
        return true;
      });
    if (2 * repeated <= others.size()) out_.doubtful.clear();
    else out_.doubtful_globs.assign(globs.begin(), globs.end());
    std::ranges::sort(out_.doubtful);
  }

  std::vector<KeySign> signs_;
  std::vector<uint32_t> dir_of_;  // by key
  std::vector<Dir> dirs_;
  std::vector<bool> holds_fqns_, holds_dots_;  // by dir: at or below it
  std::vector<uint32_t> models_;               // their roots, pieces included
  bool is_trainers_ = false;                   // there is state by rules 1 and 2
  TrainingState out_;
};

}  // namespace

bool TrainingState::is_full() const {
  const auto resumes = [](const StateGroup& g) { return g.sign != StateSign::kBeside || g.tensors > 0; };
  return !models.empty() && std::ranges::any_of(groups, resumes);
}

bool TrainingState::is_optimizers(KeyRef ref) const {
  if (is_model(ref)) return false;
  const StateGroup& g = group_of(ref);
  return g.sign <= StateSign::kSlots || (g.sign == StateSign::kName && names_optimizer(g.path.substr(g.path.rfind('.') + 1)));
}

bool TrainingState::is_doubtful(KeyRef ref) const { return !ref.is_blob() && std::ranges::binary_search(doubtful, ref.tensor()); }

// Of the model all but its _extra_state; where the model is an object, or there is none, also what stands in its place. Not all that a state dict
// without a root holds is the model's.
Weights TrainingState::weights_in(const Catalog& catalog, BlobId blob) const {
  const std::string_view key = catalog.key(catalog.blobs[blob]);
  const KeyRef ref = KeyRef::blob_at(blob);
  if (key.find(kExtraState) != std::string_view::npos) return Weights::kNot;
  if (is_model(ref)) return model_of(ref).components > 0 ? Weights::kAny : Weights::kOwnWay;
  const bool is_in_place = group_of(ref).sign == StateSign::kBeside && (models.empty() || names_model(key.substr(key.rfind('.') + 1)));
  return is_in_place ? Weights::kOwnWay : Weights::kNot;
}

bool is_slot(std::string_view word) { return is_in(kSlots, word); }
bool names_training_state(std::string_view name) { return is_in(kStateNames, without_number(name)); }

bool names_optimizer(std::string_view name) {
  if (name.size() > kLongestName) return false;
  std::string text(without_number(name));
  if (text.size() > 1 && is_upper(text.back()) && !is_upper(text[text.size() - 2])) text.pop_back();  // optimizerG
  for (char& c : text) c = static_cast<char>(is_upper(c) ? c - 'A' + 'a' : c);
  const size_t first = text.find('_'), last = text.rfind('_');
  // opt_proj is a module
  return is_in(kOptimizers, std::string_view(text).substr(last + 1)) ||
         (first > 3 && is_in(kOptimizers, std::string_view(text).substr(0, first)));
}

TrainingState find_training_state(const Catalog& catalog) { return Sorter(catalog).sort(); }

}  // namespace dcp
