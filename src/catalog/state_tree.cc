#include "catalog/state_tree.h"

#include <algorithm>
#include <unordered_set>

#include "catalog/first_words.h"
#include "catalog/mirrored_state.h"
#include "catalog/repeated_names.h"
#include "catalog/state_names.h"

namespace dcp {
namespace {

bool is_number(std::string_view name) {
  return !name.empty() && name.size() < 20 && name.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_float(const Tensor& t) { return t.dtype_known && facts_of(t.dtype).kind == DTypeKind::kFloat; }

}  // namespace

StateTree::StateTree(const Catalog& catalog)
    : c_(catalog), signs_(catalog.order.size()), dir_of_(catalog.order.size(), 0), optimizer_(find_optimizer_keys(catalog)) {
  make_dirs();
  free_whole_states();
  judge_keys();
  find_modules();
  judge_first_words();
  judge_dicts_of_parameters();
  judge_optimizers();
  judge_names();
  judge_lists();
  count();
  link_children();
}

std::string_view StateTree::leaf(size_t k) const {
  const PathRange p = path(k);
  if (p.count == 0) return key(k);
  const PathElement e = c_.path_elements[p.first + p.count - 1];
  return e.is_position() ? std::string_view() : c_.strings[e.name_id()];
}

StringId StateTree::leaf_id(size_t k) const {
  const PathRange p = path(k);
  if (p.count == 0) return tensor(k) ? tensor(k)->key : blob(k).key;
  const PathElement e = c_.path_elements[p.first + p.count - 1];
  return e.is_position() ? kNone : e.name_id();
}

uint32_t StateTree::child(uint32_t parent, uint64_t code, std::string_view name, bool is_numbered) {
  const auto [it, fresh] = numbers_.try_emplace({parent, code}, static_cast<uint32_t>(dirs_.size()));
  if (!fresh) return it->second;
  const Dir above = dirs_[parent];
  Dir& d = dirs_.emplace_back(Dir{.parent = parent, .depth = above.depth + 1, .name = name, .is_numbered = is_numbered});
  d.text_end = above.text_end + (is_numbered && name.empty() ? std::to_string(code >> 1).size() : name.size()) + 1;
  if (c_.has_planner_data && !name.empty()) d.name_id = static_cast<StringId>(code >> 1);
  d.in_model = above.in_model || is_model_name(name);
  d.in_state_dict = above.in_state_dict || is_state_dict(name);
  d.in_extra_state = above.in_extra_state || name.ends_with(kExtraState);
  d.is_state = above.is_state || (!d.in_model && names_training_state(name));
  d.doubtful = above.doubtful;
  if (d.doubtful == kNone && !d.in_model && !d.in_state_dict && may_name_training_state(name)) d.doubtful = it->second;
  return it->second;
}

void StateTree::make_dirs() {
  dirs_.emplace_back();
  std::unordered_map<std::string_view, uint64_t> words;
  for (size_t k = 0; k < signs_.size(); ++k) {
    const PathRange p = path(k);
    uint32_t at = 0;
    for (uint32_t i = p.first; i + 1 < p.first + p.count; ++i) {
      const PathElement e = c_.path_elements[i];
      const std::string_view name = e.is_position() ? std::string_view() : c_.strings[e.name_id()];
      at = e.is_position() ? child(at, e.list_position() << 1 | 1, {}, true) : child(at, uint64_t{e.name_id()} << 1, name, is_number(name));
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

// A `train_state` or `global_step_10` that holds a model, or a state dict of another name (`params`), is a trainer's dict, and no more.
void StateTree::free_whole_states() {
  std::vector<bool> free(dirs_.size());
  const auto may_free = [&](uint32_t d) { return names_whole_state(dirs_[dirs_[d].parent].name) && !names_training_state(dirs_[d].name); };
  for (uint32_t d = 1; d < dirs_.size(); ++d)
    if (may_free(d) && is_root_name(dirs_[d].name)) free[dirs_[d].parent] = true;
  for (size_t k = 0; k < signs_.size(); ++k)
    if (may_free(dir_of_[k]) && is_fqn(k)) free[dirs_[dir_of_[k]].parent] = true;
  if (std::ranges::find(free, true) == free.end()) return;
  for (size_t i = 1; i < dirs_.size(); ++i) {
    Dir& d = dirs_[i];
    d.is_state = !free[i] && (dirs_[d.parent].is_state || (!d.in_model && names_training_state(d.name)));
  }
}

// What the structure of the keys says. Names of slots beside each other, in the names of one state dict, are a module's buffers where a tensor of
// another name stands beside them, or where what they are of has the name of no parameter.
void StateTree::judge_keys() {
  std::unordered_set<std::string_view> modules;
  RepeatedNames parameters;
  if (std::ranges::any_of(optimizer_, [](const OptimizerKey& o) { return o.beside > 0; })) {
    for (size_t k = 0; k < signs_.size(); ++k)
      if (tensor(k) && optimizer_[k].sign == OptimizerSign::kAbsent) parameters.add(leaf(k));
    for (size_t k = 0; k < signs_.size(); ++k)
      if (const size_t dot = key(k).rfind('.'); tensor(k) && optimizer_[k].sign == OptimizerSign::kAbsent && dot != std::string_view::npos)
        modules.insert(key(k).substr(0, dot));
  }
  for (size_t k = 0; k < signs_.size(); ++k) {
    const OptimizerKey& o = optimizer_[k];
    if (o.sign == OptimizerSign::kAbsent) continue;
    const bool in_component = !c_.has_planner_data || o.beside > dirs_[dir_of_[k]].text_end;
    if (o.beside > 0 && in_component) {
      const std::string_view whose = key(k).substr(0, o.beside), name = whose.substr(c_.has_planner_data ? dirs_[dir_of_[k]].text_end : 0);
      const bool may_be_parameter =
          is_number(name.substr(name.rfind('.') + 1)) || may_name_optimizer(name.substr(0, name.find('.'))) || parameters.repeats(name);
      if (modules.contains(whose) || !may_be_parameter) continue;
    }
    signs_[k] = o.sign == OptimizerSign::kParamGroups ? StateSign::kParamGroups : StateSign::kSlots;
  }
}

// A parameter's whole name in one component, as in a module's state dict.
bool StateTree::is_fqn(size_t k) const { return tensor(k) && has_dots(leaf(k)) && (is_parameter_name(leaf(k)) || tensor(k)->rank >= 2); }

// Without planner data only the whole can be one, where nothing is called like a trainer's.
void StateTree::find_modules() {
  std::vector<bool> has_more(dirs_.size());
  for (size_t d = 1; d < dirs_.size(); ++d)
    if ((c_.has_planner_data && !dirs_[d].in_extra_state) || dirs_[d].is_state) has_more[dirs_[d].parent] = true;
  const auto at = [&](size_t k) { return c_.has_planner_data ? dir_of_[k] : 0; };
  for (size_t k = 0; k < signs_.size(); ++k) {
    const bool is_object = !tensor(k) && !has_dots(leaf(k)) && !leaf(k).ends_with(kExtraState);
    if (signs_[k] || is_object) has_more[at(k)] = true;
  }
  for (size_t k = 0; k < signs_.size(); ++k)
    if (!has_more[at(k)] && is_fqn(k)) dirs_[at(k)].is_modules = true;
}

// An optimizer's are beside other keys. What is not an optimizer's counts beside one: a module may be called `dataloader`.
void StateTree::judge_first_words() {
  FirstWords words;
  const auto at = [&](size_t k) { return c_.has_planner_data ? dir_of_[k] : 0; };
  for (size_t k = 0; k < signs_.size(); ++k) {
    const Dir& d = dirs_[dir_of_[k]];
    if (!d.in_model && !d.in_state_dict && !d.is_state) words.add(k, at(k), leaf(k));
  }
  if (words.empty()) return;
  std::vector<bool> has_state(dirs_.size()), has_more(dirs_.size());
  for (size_t k = 0; k < signs_.size(); ++k) {
    if (signs_[k]) has_state[at(k)] = true;
    if (words.of(k) == nullptr) has_more[at(k)] = true;
    if (tensor(k)) words.note_tensor(k, leaf(k));
  }
  for (size_t k = 0; k < signs_.size(); ++k)
    if (tensor(k) && !signs_[k] && (is_parameter_name(leaf(k)) || tensor(k)->rank >= 2)) words.note_parameter(k, leaf(k));
  for (const bool optimizers : {true, false}) {
    for (size_t k = 0; k < signs_.size(); ++k) {
      const FirstWords::Word* word = words.of(k);
      if (word == nullptr || word->is_module || word->is_optimizer != optimizers || !(optimizers ? has_more : has_state)[word->dir])
        continue;
      has_state[word->dir] = true;
      if (signs_[k]) continue;
      signs_[k] = StateSign::kName;
      optimizer_[k].top = static_cast<uint32_t>(key(k).size() - leaf(k).size()) + word->end;
    }
  }
}

// A dict that is called like a tensor elsewhere, dots and all, holds what an optimizer keeps of it; so does one beside it that is called like a
// tensor, without dots.
void StateTree::judge_dicts_of_parameters() {
  std::unordered_set<StringId> names, parameters;
  const auto may_be_one = [&](const Dir& d) { return d.name_id != kNone && !d.in_model; };
  bool any = false;
  for (const Dir& d : dirs_)
    if (may_be_one(d)) {
      names.insert(d.name_id);
      any = any || has_dots(d.name);
    }
  if (!any) return;
  for (size_t k = 0; k < signs_.size(); ++k)
    if (tensor(k) && !signs_[k] && names.contains(leaf_id(k))) parameters.insert(leaf_id(k));
  std::vector<bool> in_one(dirs_.size()), holds_one(dirs_.size());
  const auto is_one = [&](const Dir& d) { return may_be_one(d) && parameters.contains(d.name_id); };
  for (size_t d = 1; d < dirs_.size(); ++d)
    if (is_one(dirs_[d]) && has_dots(dirs_[d].name)) holds_one[dirs_[d].parent] = true;
  for (size_t d = 1; d < dirs_.size(); ++d) in_one[d] = in_one[dirs_[d].parent] || (holds_one[dirs_[d].parent] && is_one(dirs_[d]));
  for (size_t k = 0; k < signs_.size(); ++k)
    if (in_one[dir_of_[k]] && !signs_[k]) signs_[k] = StateSign::kSlots;
}

// A model's root holds tensors, and no parameter stands beside it.
std::vector<StateTree::Contents> StateTree::contents() const {
  std::vector<Contents> of(dirs_.size());
  std::vector<bool> in_optimizer(dirs_.size());
  for (size_t d = 1; d < dirs_.size(); ++d) in_optimizer[d] = in_optimizer[dirs_[d].parent] || may_name_optimizer(dirs_[d].name);
  RepeatedNames names;
  for (size_t k = 0; k < signs_.size(); ++k)
    if (tensor(k) && !signs_[k] && !in_optimizer[dir_of_[k]]) names.add(leaf(k));
  for (size_t k = 0; k < signs_.size(); ++k) {
    if (!tensor(k) || signs_[k]) continue;
    const uint32_t at = dir_of_[k];
    Contents& c = of[at];
    c.has_tensors = true;
    c.has_fqns = c.has_fqns || is_fqn(k);
    if (in_optimizer[at] && !c.has_own_names) c.has_own_names = is_parameter_name(leaf(k)) && !names.repeats(leaf(k));
  }
  std::vector<bool> has_models(
      dirs_.size());  // by dir: itself or a child not called like an optimizer holds parameters with dots in their names
  for (size_t d = dirs_.size(); d-- > 1;) {
    Contents &up = of[dirs_[d].parent], &c = of[d];
    if (!c.has_tensors) continue;
    up.has_tensors = true;
    up.has_own_names = up.has_own_names || c.has_own_names;
    c.holds_fqns = c.holds_fqns || c.has_fqns;
    up.holds_fqns = up.holds_fqns || c.holds_fqns;
    has_models[dirs_[d].parent] = has_models[dirs_[d].parent] || up.has_fqns || (c.holds_fqns && !may_name_optimizer(dirs_[d].name));
    c.roots += is_root_name(dirs_[d].name) && !up.has_fqns;
    up.roots += c.roots;
    up.has_copies = up.has_copies || names_copy(dirs_[d].name);
    up.has_optimizers = up.has_optimizers || c.has_optimizers || may_name_optimizer(dirs_[d].name);
  }
  for (size_t d = 1; d < dirs_.size(); ++d) of[d].is_beside_fqns = has_models[dirs_[d].parent];
  return of;
}

// What is called like an optimizer is one where a model's root stands elsewhere, beside a state dict of any name if it is none itself, or where
// it repeats names and shapes. Under any other name only what repeats them in several dicts, and is not called like copies of a model.
void StateTree::judge_optimizers() {
  const std::vector<Contents> of = contents();
  std::vector<MirrorQuestion> asked;
  std::vector<bool> below_asked(dirs_.size());
  for (uint32_t i = 1; i < dirs_.size(); ++i) {
    const Dir& d = dirs_[i];
    below_asked[i] = below_asked[d.parent];
    if (below_asked[i] || d.in_model || d.is_state || !of[i].has_tensors) continue;
    const bool optimizers = may_name_optimizer(d.name);
    const bool any = c_.has_planner_data && of[i].roots == 0 && !of[i].has_optimizers && !of[i].has_copies && !names_copy(d.name);
    if (!optimizers && !any) continue;
    below_asked[i] = true;
    asked.push_back({.dir = i, .is_optimizers = optimizers});
  }
  const std::vector<Mirror> mirrors = find_mirrors(c_, *this, asked);
  std::vector<std::optional<StateSign>> signs(dirs_.size());
  for (const MirrorQuestion& q : asked) {
    const bool beside_root = c_.has_planner_data && !dirs_[q.dir].in_state_dict &&
                             (of[0].roots > of[q.dir].roots || (of[q.dir].is_beside_fqns && !of[q.dir].holds_fqns));
    const Mirror required = q.is_optimizers && c_.has_planner_data ? Mirror::kItself : Mirror::kTwice;
    if (mirrors[q.dir] >= required) signs[q.dir] = StateSign::kSlots;
    else if (q.is_optimizers && beside_root && !(of[q.dir].has_own_names && ends_like_module(dirs_[q.dir].name)))
      signs[q.dir] = StateSign::kName;
  }
  for (uint32_t i = 1; i < dirs_.size(); ++i)
    if (!signs[i]) signs[i] = signs[dirs_[i].parent];
  for (size_t k = 0; k < signs_.size(); ++k)
    if (!signs_[k]) signs_[k] = signs[dir_of_[k]];
}

bool StateTree::leaf_names_state(size_t k) const {
  const Dir& d = dirs_[c_.has_planner_data ? dir_of_[k] : 0];
  return !d.in_model && !(d.is_modules && tensor(k)) && names_training_state(leaf(k));
}

// A counter has one element; a parameter called `step` may have more, and stands among others.
bool StateTree::leaf_may_name_state(size_t k, bool among_parameters) const {
  const Dir& d = dirs_[dir_of_[k]];
  if (d.in_model || d.in_state_dict || d.is_modules || !may_name_training_state(leaf(k))) return false;
  return !tensor(k) || !is_float(*tensor(k)) || (tensor(k)->rank == 0 && !among_parameters);
}

void StateTree::judge_names() {
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

// Lists of tensors, and what no module is called, beside a dict with `param_groups`: what an optimizer around it keeps (apex:
// fp32_from_fp16_params, grad_scaler). No module saves lists.
void StateTree::judge_lists() {
  std::vector<bool> may_be_modules(dirs_.size()), has_groups(dirs_.size()), beside(dirs_.size());
  bool has_fqns = false;
  for (size_t k = 0; k < signs_.size(); ++k) {
    if (tensor(k) && leaf_id(k) != kNone && (has_dots(leaf(k)) || is_parameter_name(leaf(k)) || tensor(k)->rank >= 2))
      may_be_modules[dir_of_[k]] = true;
    if (signs_[k] == StateSign::kParamGroups) has_groups[dir_of_[k]] = true;
    has_fqns = has_fqns || (is_fqn(k) && !signs_[k]);
  }
  if (!c_.has_planner_data || !has_fqns) return;
  for (size_t d = dirs_.size(); d-- > 1;) {
    if (may_be_modules[d]) may_be_modules[dirs_[d].parent] = true;
    if (has_groups[d]) has_groups[dirs_[d].parent] = true;
  }
  for (size_t d = 1; d < dirs_.size(); ++d)
    beside[d] = beside[dirs_[d].parent] ||
                (has_groups[dirs_[d].parent] && !has_groups[d] && !may_be_modules[d] && !dirs_[d].in_model && !dirs_[d].in_extra_state);
  for (size_t k = 0; k < signs_.size(); ++k)
    if (beside[dir_of_[k]] && !signs_[k]) signs_[k] = StateSign::kBeside;
}

void StateTree::count() {
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
    dirs_[i].holds_fqns = d.holds_fqns || d.fqns > 0;
    up.holds_fqns = up.holds_fqns || d.holds_fqns;
    up.holds_named = up.holds_named || d.holds_named || (is_root_name(d.name) && d.open_tensors() > 0);
  }
}

void StateTree::count(size_t k, Dir& d) {
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

void StateTree::link_children() {
  first_child_.assign(dirs_.size() + 1, 0);
  for (size_t i = 1; i < dirs_.size(); ++i) ++first_child_[dirs_[i].parent + 1];
  for (size_t i = 1; i < first_child_.size(); ++i) first_child_[i] += first_child_[i - 1];
  children_.resize(dirs_.size() - 1);
  std::vector<uint32_t> next(first_child_.begin(), first_child_.end() - 1);
  for (uint32_t i = 1; i < dirs_.size(); ++i) children_[next[dirs_[i].parent]++] = i;
}

std::span<const uint32_t> StateTree::children(uint32_t d) const {
  return std::span(children_).subspan(first_child_[d], first_child_[d + 1] - first_child_[d]);
}

bool StateTree::is_trainers(uint32_t at) const {
  const Dir& d = dirs_[at];
  return d.state_leaves > 0 || (d.objects > 0 && !d.in_model) ||
         std::ranges::any_of(children(at), [&](uint32_t c) { return dirs_[c].all_state(); });
}

}  // namespace dcp
