#include "select/training_state.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "select/doubtful_keys.h"

namespace dcp {
namespace {

// Rule 2: dicts, and first words of flat keys; objects; the next where a model stands elsewhere, with other words before or behind.
constexpr auto kStateNames = std::to_array<std::string_view>(
    {"dataloader", "frozen_param_fragments", "lr_scheduler", "lr_schedulers", "opt_state", "optim", "optim_state", "optim_state_dict",
     "optimizer", "optimizer_state", "optimizer_state_dict", "optimizer_states", "optimizers", "rng_state", "rng_states", "train_state"});
constexpr auto kCounters = std::to_array<std::string_view>({"epoch", "global_step", "iteration", "step"});
constexpr auto kOptimizers =
    std::to_array<std::string_view>({"adafactor", "adam", "adamw", "lion", "muon", "opt", "optim", "optimizer", "sgd", "shampoo"});
// Rule 3: dicts.
constexpr auto kModels = std::to_array<std::string_view>(
    {"model", "model_parts", "model_state", "model_state_dict", "module", "net", "network", "params", "state_dict"});
static_assert(kStateNames.size() + kCounters.size() <= 20 && std::ranges::is_sorted(kStateNames) && std::ranges::is_sorted(kCounters));
static_assert(std::ranges::is_sorted(kOptimizers) && std::ranges::is_sorted(kModels));

constexpr size_t kLongestName = 64;    // a component may be shared by many keys: a longer one is in no list
constexpr size_t kLongestPath = 4096;  // a longer one is never typed

template <class List>
bool is_in(const List& list, std::string_view name) {
  return std::ranges::binary_search(list, name);
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool has_dots(std::string_view name) { return name.find('.') != name.npos; }

std::string_view without_number(std::string_view name) {
  if (name.size() > kLongestName || name.empty() || !is_digit(name.back())) return name;
  while (!name.empty() && is_digit(name.back())) name.remove_suffix(1);
  if (name.size() > 1 && name.ends_with('_')) name.remove_suffix(1);
  return name;
}

class Sorter {
 public:
  explicit Sorter(const Catalog& c) : c_(c), signs_(find_optimizer_keys(c)), dir_of_(c.order.size()) {}

  TrainingState sort() {
    make_dirs();
    judge_names();
    find_models();
    join_pieces();
    place();
    find_doubtful(c_, out_);
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
    // Tensors that are not state: in it, and some with dots in their names; at or below it; dirs in it that have some.
    bool has_fqns = false, holds_fqns = false, holds_dots = false;
    uint64_t own = 0, open = 0, open_dirs = 0, open_dir = 0;
    uint64_t keys = 0, tensors = 0;  // all, at or below it
    // The root of the model that it belongs to; of a root itself, that of the model's first piece, the dict around all of it, and the rule.
    uint32_t model = kNone, around = kNone;
    ModelSign rule{};
  };

  const Tensor* tensor(size_t k) const { return c_.order[k].is_blob() ? nullptr : &c_.tensors[c_.order[k].tensor()]; }
  std::string_view key(size_t k) const { return c_.key(c_.order[k]); }
  PathRange path(size_t k) const { return tensor(k) ? tensor(k)->path : c_.blobs[c_.order[k].blob()].path; }
  std::string_view name(PathElement e) const { return e.is_position() ? std::string_view() : c_.strings[e.name_id()]; }
  // The last component; the key itself without paths, and in place of what many keys may share.
  std::string_view leaf(size_t k) const {
    const PathRange p = path(k);
    const std::string_view last = p.count == 0 ? key(k) : name(c_.path_elements[p.first + p.count - 1]);
    return last.size() > key(k).size() ? key(k) : last;
  }
  bool is_open(size_t k) const { return tensor(k) && !signs_[k]; }
  bool is_fqn(size_t k) const { return has_dots(leaf(k)) && (is_parameter_name(leaf(k)) || tensor(k)->rank >= 2); }

  struct StepHash {
    size_t operator()(const std::pair<uint32_t, uint64_t>& step) const {
      const uint64_t h = (step.second ^ uint64_t{step.first} << 40) * 0x9E3779B97F4A7C15u;
      return (h ^ h >> 29) * 0xBF58476D1CE4E5B9u >> 16;
    }
  };

  void make_dirs() {
    std::unordered_map<std::pair<uint32_t, uint64_t>, uint32_t, StepHash> numbers, alike;
    std::unordered_map<std::string_view, uint64_t> stems;
    dirs_.emplace_back();
    for (size_t k = 0; k < signs_.size(); ++k) {
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
          dirs_[at].has_named = dirs_[at].has_named || names_model(name(e));
          dirs_.push_back({.parent = at, .depth = dirs_[at].depth + 1, .element = e});
          dirs_.back().alike = alike.try_emplace({dirs_[at].alike, like}, it->second).first->second;
        }
        at = it->second;
      }
      dirs_[at].in_optimizer = dirs_[at].in_optimizer || (has_groups && leaf(k).starts_with("param_groups"));
      dir_of_[k] = at;
    }
  }

  void judge_names() {
    for (Dir& d : dirs_) {
      const Dir& up = dirs_[d.parent];
      const std::string_view text = name(d.element);
      d.is_named = names_model(text);
      d.below_named = up.below_named || (d.is_named && text != "state_dict");
      d.in_extra_state = up.in_extra_state || text.ends_with(kExtraState);
      d.in_optimizer = !d.below_named && (d.in_optimizer || up.in_optimizer || names_optimizer(text));
      d.sign = up.sign;
      if (d.sign != StateSign::kOpen || d.below_named) continue;
      const bool is_whole = text == "train_state" && d.has_named;  // JAX's TrainState
      d.sign = is_slot(text) ? StateSign::kSlots : names_training_state(text) && !is_whole ? StateSign::kName : StateSign::kOpen;
    }
    std::vector<bool> is_modules(dirs_.size());
    for (size_t k = 0; k < signs_.size(); ++k)
      if (is_open(k) && is_fqn(k)) is_modules[dir_of_[k]] = true;
    bool is_elsewhere = false;  // a model, outside of what is named like an optimizer
    for (size_t k = 0; k < signs_.size(); ++k) {
      const Dir& d = dirs_[dir_of_[k]];
      if (!signs_[k] && !d.below_named) signs_[k] = d.sign != StateSign::kOpen ? KeySign{d.sign} : sign_by_name(k, is_modules[dir_of_[k]]);
      is_elsewhere = is_elsewhere || (is_open(k) && !d.in_optimizer && (d.below_named || is_fqn(k)));
    }
    for (size_t k = 0; k < signs_.size() && is_elsewhere; ++k)
      if (!signs_[k] && dirs_[dir_of_[k]].in_optimizer) signs_[k].sign = StateSign::kName;
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

  void add_model(uint32_t dir, ModelSign rule) {
    models_.push_back(dir);
    dirs_[dir].model = dirs_[dir].around = dir;
    dirs_[dir].rule = rule;
  }
  uint32_t root_of(size_t k) const { return dirs_[dirs_[dir_of_[k]].model].model; }

  void find_models() {
    for (size_t k = 0; k < signs_.size(); ++k) {
      Dir& d = dirs_[dir_of_[k]];
      ++d.keys, d.tensors += tensor(k) != nullptr;
      if (!is_open(k)) continue;
      ++d.own, d.has_fqns = d.has_fqns || (!d.in_extra_state && is_fqn(k)), d.holds_dots = d.holds_dots || has_dots(leaf(k));
    }
    for (size_t i = dirs_.size(); i-- > 0;) {
      Dir &d = dirs_[i], &up = dirs_[d.parent];
      d.open += d.own, d.holds_fqns = d.holds_fqns || d.has_fqns;
      if (i == 0) break;
      up.keys += d.keys, up.tensors += d.tensors, up.open += d.open, up.open_dirs += d.open > 0;
      if (d.open > 0) up.open_dir = i;
      up.holds_fqns = up.holds_fqns || d.holds_fqns, up.holds_dots = up.holds_dots || d.holds_dots;
    }
    is_trainers_ = std::ranges::any_of(signs_, [](const KeySign& s) { return bool(s); });
    if (!c_.has_planner_data) return add_model(0, ModelSign::kRest);
    for (uint32_t d = 0; d < dirs_.size(); ++d) {
      inherit(d);
      const bool is_around = dirs_[d].own == 0 && dirs_[d].open_dirs == 1 && dirs_[d].has_named;  // state_dict.model
      const bool is_named = dirs_[d].is_named && dirs_[d].open > 0 && !dirs_[d].holds_fqns && dirs_[d].model == kNone && !is_around;
      if (dirs_[d].has_fqns || is_named) add_model(d, dirs_[d].is_named ? ModelSign::kName : ModelSign::kTensorNames);
    }
    if (models_.empty()) find_rest();
    else find_second_models();
  }

  // A module's state dict is flat: dicts of tensors in it are none of its own, but for those that its get_extra_state() returned, and names with
  // dots that are no state dict by themselves.
  void inherit(uint32_t d) {
    const uint32_t above = dirs_[dirs_[d].parent].model;
    if (dirs_[d].model != kNone || above == kNone) return;
    const bool may_be_in_it = dirs_[d].in_extra_state || dirs_[d].tensors == 0 || (dirs_[d].holds_dots && !dirs_[d].holds_fqns);
    if (may_be_in_it || dirs_[d].parent != above || !dirs_[above].has_fqns) dirs_[d].model = above;
  }

  // No dict is named like a model, and none has names with dots: the one dict of tensors beside what is a trainer's, or everything.
  void find_rest() {
    bool has_objects = false, has_dims = !is_trainers_;
    for (size_t k = 0; k < signs_.size(); ++k) {
      has_objects = has_objects || (!tensor(k) && dir_of_[k] == 0);
      has_dims = has_dims || (is_open(k) && tensor(k)->rank > 0);
    }
    uint32_t root = 0;
    for (uint32_t d = 1; d < dirs_.size() && dirs_[0].own == 0 && dirs_[0].open_dirs == 1 && (is_trainers_ || has_objects); ++d)
      if (root == 0 && dirs_[d].parent == 0 && dirs_[d].open > 0) root = d;
    if (root > 0 || has_dims) add_model(root, ModelSign::kRest);
    for (uint32_t d = 1; d < dirs_.size(); ++d) inherit(d);
  }

  // Dicts with tensors that have parameters' names, or names of tensors of a model.
  void find_second_models() {
    std::unordered_set<std::string_view> names;
    std::vector<bool> is_second(dirs_.size()), holds_model(dirs_.size());
    for (size_t k = 0; k < signs_.size(); ++k)
      if (is_open(k) && dirs_[dir_of_[k]].model != kNone && !leaf(k).empty()) names.insert(leaf(k));
    for (size_t k = 0; k < signs_.size(); ++k)
      if (is_open(k) && !dirs_[dir_of_[k]].in_extra_state && (is_parameter_name(leaf(k)) || names.contains(leaf(k))))
        is_second[dir_of_[k]] = true;
    for (size_t d = dirs_.size(); d-- > 1;) {
      const uint32_t up = dirs_[d].parent;
      holds_model[up] = holds_model[up] || holds_model[d] || dirs_[d].model == d;
      is_second[up] = is_second[up] || is_second[d];
    }
    for (uint32_t d = 1; d < dirs_.size(); ++d) {
      inherit(d);
      const bool is_around = dirs_[d].own == 0 && dirs_[d].open_dirs == 1 && dirs_[d].keys > dirs_[dirs_[d].open_dir].keys;
      if (dirs_[d].model == kNone && is_second[d] && !holds_model[d] && !is_around) add_model(d, ModelSign::kSecond);
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
    for (size_t k = 0; k < signs_.size() && pieces.size() < models_.size(); ++k) {
      const uint32_t m = dirs_[dir_of_[k]].model;
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

  bool is_beside(size_t k) const {
    const Dir& d = dirs_[dir_of_[k]];
    if (d.model == kNone) return true;
    if (tensor(k) || d.in_extra_state || leaf(k).ends_with(kExtraState)) return false;
    return d.model == 0 && is_trainers_ &&
           (d.tensors == 0 || (dir_of_[k] == 0 && !has_dots(leaf(k))));  // beside a state dict without a root
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
    for (size_t k = 0; k < signs_.size(); ++k)
      if (!signs_[k] && is_beside(k)) signs_[k].sign = StateSign::kBeside;
    std::vector<bool> holds_model(dirs_.size());
    for (size_t k = 0; k < signs_.size(); ++k)
      if (!signs_[k]) holds_model[dir_of_[k]] = true;
    for (size_t d = dirs_.size(); d-- > 1;)
      if (holds_model[d]) holds_model[dirs_[d].parent] = true;
    std::vector<uint32_t> top(dirs_.size(), kNone);  // the highest dir at or above it in which nothing is model
    for (uint32_t d = 1; d < dirs_.size(); ++d)
      if (top[d] = top[dirs_[d].parent]; top[d] == kNone && !holds_model[d]) top[d] = d;
    std::map<std::pair<std::string, uint32_t>, std::vector<size_t>> parts;  // by path, and the root of a model
    std::vector<std::vector<size_t>*> of_dir(dirs_.size());
    for (size_t k = 0; k < signs_.size(); ++k) {
      const uint32_t root = signs_[k] ? kNone : root_of(k), d = signs_[k] ? top[dir_of_[k]] : root;
      std::vector<size_t>* keys = d == kNone ? nullptr : of_dir[d];
      if (keys == nullptr) {
        std::string path(key(k).substr(0, signs_[k].top > 0 ? signs_[k].top : key(k).size()));
        if (d != kNone) path = text_of(root == kNone ? d : dirs_[root].around, k);
        keys = &parts[{std::move(path), root}];
        if (d != kNone) of_dir[d] = keys;
      }
      keys->push_back(k);
    }
    out_.of_tensor.resize(c_.tensors.size());
    out_.of_blob.resize(c_.blobs.size());
    for (const auto& [part, keys] : parts) {
      if (part.second != kNone) {
        const Dir& root = dirs_[part.second];
        out_.models.push_back({.path = part.first, .sign = root.rule, .components = root.depth});
        put(keys, -static_cast<int32_t>(out_.models.size()), out_.models.back());
        continue;
      }
      out_.groups.push_back({.path = part.first, .sign = StateSign::kOpen});
      for (const size_t k : keys) out_.groups.back().sign = std::min(out_.groups.back().sign, signs_[k].sign);
      put(keys, static_cast<int32_t>(out_.groups.size()) - 1, out_.groups.back());
      out_.keys += keys.size();
    }
  }
  template <class Sums>
  void put(const std::vector<size_t>& keys, int32_t place, Sums& sums) {
    for (const size_t k : keys) {
      (tensor(k) ? out_.of_tensor[c_.order[k].tensor()] : out_.of_blob[c_.order[k].blob()]) = place;
      sums.tensors += tensor(k) != nullptr;
      sums.tensor_bytes += tensor(k) ? c_.tensor_bytes(*tensor(k)) : 0;
    }
    sums.keys = keys.size();
  }

  const Catalog& c_;
  std::vector<KeySign> signs_;    // by position in Catalog::order,
  std::vector<uint32_t> dir_of_;  // as this
  std::vector<Dir> dirs_;
  std::vector<uint32_t> models_;  // their roots, pieces included
  bool is_trainers_ = false;      // there is state by rules 1 and 2
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

bool names_training_state(std::string_view name) { return is_in(kStateNames, without_number(name)); }
bool names_model(std::string_view name) { return is_in(kModels, without_number(name)); }

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

void fail_several(const Catalog& catalog, const std::vector<std::string>& paths) {
  Problem p = make_problem(ProblemId::several_models, {.path = catalog.path, .setting = "root"});
  for (const std::string& path : paths) {
    if (!path.empty()) p.names.push_back(path);
    else p.expected = "one of them, or all of them excluded: the keys around them are a model, too";
  }
  throw Error(std::move(p));
}

TrainingState find_training_state(const Catalog& catalog) { return Sorter(catalog).sort(); }

}  // namespace dcp
