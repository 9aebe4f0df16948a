#include "select/training_state.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"

namespace dcp {

using enum Sign;

constexpr size_t kLongestName = 64,
                 kLongestPath = 4096;  // many keys may share a component: a longer one is in no list, a longer path not typed
constexpr auto is_any = [](std::string_view name, auto... names) { return ((name == names) || ...); };
static std::string_view without_number(std::string_view name) {
  const size_t end = name.size() > kLongestName ? name.size() : name.find_last_not_of("0123456789") + 1;
  return name.substr(0, end > 1 && end < name.size() && name[end - 1] == '_' ? end - 1 : end);
}
static bool is_parameter_name(std::string_view name) {
  return name.ends_with("weight") || name.ends_with("bias") || name.ends_with("running_mean") || name.ends_with("running_var");
}

// Rule 1: slots of torch.optim, Adafactor, bitsandbytes, Muon, Lion, Shampoo, Megatron, by names that a module would hardly have.
bool is_slot(std::string_view word) {
  return is_any(word, "acc_delta", "exp_avg", "exp_avg_diff", "exp_avg_res", "exp_avg_slow", "exp_avg_sq", "exp_avg_sq_col",
                "exp_avg_sq_row", "exp_inf", "fp32_param", "max_exp_avg_sq", "momentum_buffer", "prev_flat_grad", "square_avg");
}
// Rule 2: dicts, and first words of flat keys; the next where a model stands elsewhere, with other words before or behind.
bool names_training_state(std::string_view name) {
  return is_any(without_number(name), "dataloader", "frozen_param_fragments", "lr_scheduler", "lr_schedulers", "opt_state", "optim",
                "optim_state", "optim_state_dict", "optimizer", "optimizer_state", "optimizer_state_dict", "optimizer_states", "optimizers",
                "rng_state", "rng_states", "train_state");
}
bool names_optimizer(std::string_view name) {
  const auto is_optimizer = [](std::string_view word) {
    return is_any(word, "adafactor", "adam", "adamw", "lion", "muon", "opt", "optim", "optimizer", "sgd", "shampoo");
  };
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (name.size() > kLongestName) return false;
  std::string text(without_number(name));
  if (text.size() > 1 && is_upper(text.back()) && !is_upper(text[text.size() - 2])) text.pop_back();  // optimizerG
  for (char& c : text) c = static_cast<char>(is_upper(c) ? c - 'A' + 'a' : c);
  const size_t first = text.find('_');
  return is_optimizer(text.substr(text.rfind('_') + 1)) || (first > 3 && is_optimizer(text.substr(0, first)));  // opt_proj is a module
}
// Rule 3: dicts.
static bool names_model(std::string_view name) {
  return is_any(without_number(name), "model", "model_parts", "model_state", "model_state_dict", "module", "net", "network", "params",
                "state_dict");
}

namespace {

// What the rules find out about a key, in the catalog's order.
struct Key {
  KeyRef ref;
  std::string_view text, leaf;     // the last component; the key itself without paths, and in place of what many keys may share
  const Tensor* tensor = nullptr;  // none: an object
  PathRange path;
  uint32_t dir = 0, top = 0;  // the dict that it is in; bytes of the text that name the whole optimizer, 0: all
  int32_t* place = nullptr;
  Sign sign = kOpen;

  bool is_open() const { return tensor && sign == kOpen; }
  bool has_dots() const { return leaf.find('.') != leaf.npos; }
  bool is_fqn() const { return is_open() && has_dots() && (is_parameter_name(leaf) || tensor->rank >= 2); }
};

constexpr uint64_t kHash = 0xcbf29ce484222325;  // FNV-1a of nothing
uint64_t extended(uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}
// A word of a key, which is cut at its dots. A prefix is known by its hash, so that all those of a key take time in proportion to its bytes.
struct Word {
  std::string_view key, text = {};
  size_t begin = 0, end = key.npos, count = 0;
  uint64_t above = kHash, through = 0;  // hashes of what ends before it, with the dot, and with it

  bool next() {
    if (end == key.size()) return false;
    if (end != key.npos) above = extended(through, ".");
    begin = end + 1, end = std::min(key.find('.', begin), key.size()), text = key.substr(begin, end - begin);
    through = extended(above, text);
    return true;
  }
  // Of so many words, but for one that is the last and not the first, too.
  bool next_of(size_t max) { return next() && ++count <= max && (begin == 0 || end < key.size()); }
  std::string_view before() const { return key.substr(0, begin - (begin > 0)); }
  std::string_view rest() const { return key.substr(begin); }
};

// Rule 1: the keys that an optimizer keeps, by their structure alone. A module below a `model` may be called `state`, and a list of its `param_groups`.
using Optimizers = std::unordered_map<uint64_t, Sign>;  // by the hash of a prefix, below which all is an optimizer's

void look(const Catalog& c, Key& k, Optimizers& found) {
  std::string_view next;          // the word below the deepest `state` so far,
  uint64_t state = 0, below = 0;  // which has this hash, and so many words below it
  bool below_model = false;
  for (Word w{k.text}; w.next();) {
    const bool is_last = w.end == k.text.size();
    if (w.text == "param_groups") {
      if (!k.tensor || is_any(k.text.substr(k.text.rfind('.') + 1), "betas", "dampening", "eps", "initial_lr", "lr", "momentum", "nesterov",
                              "params", "weight_decay"))
        found[w.through] = found[extended(w.above, "state")] = kParamGroups;
      return;
    }
    const bool is_step = w.text == "step" && is_last && (!k.tensor || c.elements(*k.tensor) == 1);
    if (is_step || is_slot(w.text)) {
      // Below a `state` it is an optimizer's if it is of a numbered parameter, of one that is called so, or a key of the parameter's own dict. A
      // module called `state` may have a slot in a buffer, and trainers keep models below a `state`, too.
      const bool is_numbered = below == 1 && is_number(next) && !(is_step && c.has_key(std::string(w.before()) + ".weight"));
      const bool is_in_own_dict = !is_step && k.path.count >= 3 && !names_model(next) && k.leaf == w.text;
      const bool is_states = below == 0 ? !is_last : is_numbered || is_parameter_name(w.before()) || is_in_own_dict;
      if (state != 0 && is_states) found.try_emplace(state, kSlots);
      // Nothing else has a key below that of a tensor; no module has a child in the place of its weight.
      else if (w.begin > 0 && (is_parameter_name(w.before()) || c.has_key(w.before()))) k.sign = kSlots;
      else if (!is_last && c.has_key(k.text.substr(w.end + 1))) k.sign = kSlots, k.top = static_cast<uint32_t>(w.end);
      return;
    }
    if (w.text == "state" && !below_model) state = w.through, below = 0;
    else if (state != 0 && below++ == 0) next = w.text;
    below_model |= state == 0 && names_model(w.text) && w.text != "state_dict";
  }
}

// A dict or list of the state dict; parents come before children, the first is the state dict itself.
struct Dir {
  uint32_t parent = 0, depth = 0;
  PathElement element = PathElement::position(0);
  uint64_t alike = kHash;                                         // of its path without numbers
  bool is_named = false, below_named = false, has_named = false;  // like a model; not only below a `state_dict`; a dir in it
  bool in_optimizer = false, in_extra_state = false, is_module = false, has_fqns = false;
  // At or below it: tensors that are not state, those with dots in their names, all; what may be a second model; below it: a root; what is model.
  bool holds_open = false, holds_dots = false, holds_fqns = false, holds_tensors = false;
  bool is_second = false, holds_root = false, holds_model = false;
  uint32_t open = 0, open_dir = 0, keys = 0;  // in it: tensors that are not state and dirs that hold some; the first of these; all keys
  uint32_t model = kNone, around = kNone, top = kNone;  // root of its model; of that root: dict around all pieces; highest without model
  Sign sign = kOpen, rule{};                            // of the keys in it by its name; of the root of a model

  bool is_around_one() const { return open == 1 && open_dir != 0; }
};

struct Sorter {
  explicit Sorter(const Catalog& catalog) : c(catalog) {
    keys.reserve(c.order.size());
    for (const KeyRef ref : c.order) {
      const Tensor* const tensor = ref.is_blob() ? nullptr : &c.tensors[ref.tensor()];
      const PathRange path = tensor ? tensor->path : c.blobs[ref.blob()].path;
      const std::string_view text = c.key(ref), last = path.count == 0 ? text : name(c.path_elements[path.first + path.count - 1]);
      keys.push_back({.ref = ref, .text = text, .leaf = last.size() > text.size() ? text : last, .tensor = tensor, .path = path});
    }
    Optimizers optimizers;
    for (Key& k : keys) look(c, k, optimizers);
    for (Key& k : keys)
      for (Word w{k.text}; !optimizers.empty() && w.next();)
        if (const auto found = optimizers.find(w.through); found != optimizers.end()) {
          k.sign = found->second, k.top = static_cast<uint32_t>(w.begin > 0 ? w.begin - 1 : w.end);
          break;
        }
    make_dirs();
    sign_names();
    find_models();
    join_pieces();
    place();
    find_doubtful();
  }

  std::string_view name(PathElement e) const { return e.is_position() ? std::string_view() : c.strings[e.name_id()]; }
  void mark(uint32_t d, bool Dir::* what, bool is) {  // it, and all above it
    for (; is && !(dirs[d].*what); d = dirs[d].parent) dirs[d].*what = true;
  }

  void make_dirs() {
    std::unordered_map<uint64_t, uint32_t> elements, numbers;  // (parent, number of the element)
    dirs.emplace_back();
    for (Key& k : keys) {
      uint32_t at = 0;
      for (uint32_t i = k.path.first; i + 1 < k.path.first + k.path.count; ++i) {
        const PathElement e = c.path_elements[i];
        const std::string_view text = name(e), stem = without_number(text);
        dirs[at].in_optimizer |= k.sign == kParamGroups && text == "param_groups";
        const uint64_t code = e.is_position() ? e.list_position() << 1 | 1 : uint64_t{e.name_id()} << 1;
        const uint32_t element = elements.try_emplace(code, static_cast<uint32_t>(elements.size())).first->second;
        const auto [it, fresh] = numbers.try_emplace(uint64_t{at} << 32 | element, static_cast<uint32_t>(dirs.size()));
        if (fresh) {
          const std::string like = e.is_position() || stem.size() < text.size() ? "#" + std::string(stem) : std::to_string(element);
          dirs.push_back({at, dirs[at].depth + 1, e, extended(dirs[at].alike, like + "/"), names_model(text)});
          dirs[at].has_named |= dirs.back().is_named;
        }
        at = it->second;
      }
      dirs[at].in_optimizer |= k.sign == kParamGroups && k.leaf.starts_with("param_groups");
      dirs[at].is_module |= k.is_fqn(), k.dir = at;
    }
  }

  // Rule 2.
  void sign_names() {
    for (Dir& d : dirs) {
      const Dir& up = dirs[d.parent];
      const std::string_view text = name(d.element);
      const bool is_state = names_training_state(text) && !(text == "train_state" && d.has_named);  // JAX's TrainState has the model
      d.below_named = up.below_named || (d.is_named && text != "state_dict");
      d.in_extra_state = up.in_extra_state || text.ends_with(kExtraState);
      d.in_optimizer = !d.below_named && (d.in_optimizer || up.in_optimizer || names_optimizer(text));
      d.sign = up.sign != kOpen ? up.sign : is_slot(text) ? kSlots : is_state ? kName : kOpen;
    }
    bool is_elsewhere = false;  // a model, outside of what is named like an optimizer
    for (Key& k : keys) {
      const Dir& d = dirs[k.dir];
      if (k.sign == kOpen && !d.below_named) k.sign = d.sign != kOpen ? d.sign : sign_by_name(k, d);
      is_elsewhere |= k.is_open() && !d.in_optimizer && (d.below_named || k.is_fqn());
    }
    for (Key& k : keys)
      if (k.sign == kOpen && is_elsewhere && dirs[k.dir].in_optimizer) k.sign = kName;
  }

  // By its whole name, if no parameter of a module may be called so; of a flat key by the first word, or that behind Megatron-Core's `chained_0`.
  static Sign sign_by_name(Key& k, const Dir& d) {
    size_t begin = 0, end = k.leaf.find('.');
    if (end == k.leaf.npos && names_training_state(k.leaf)) return k.tensor && d.is_module ? kOpen : kName;
    if (end == k.leaf.npos) return !k.tensor && is_any(k.leaf, "epoch", "global_step", "iteration", "step") ? kName : kOpen;
    if (without_number(k.leaf.substr(0, end)) == "chained") end = k.leaf.find('.', begin = end + 1);
    if (k.path.count > 1 || end == k.leaf.npos || !names_training_state(k.leaf.substr(begin, end - begin))) return kOpen;
    return k.top = static_cast<uint32_t>(end), kName;
  }

  void add_model(uint32_t d, Sign rule) {
    roots.push_back(d);
    dirs[d].model = dirs[d].around = d, dirs[d].rule = rule;
    mark(dirs[d].parent, &Dir::holds_root, true);
  }

  // Rule 3, and what follows from it.
  void find_models() {
    for (const Key& k : keys) {
      Dir& d = dirs[k.dir];
      ++d.keys, d.open += k.is_open(), is_trainers |= k.sign != kOpen, d.has_fqns |= k.is_fqn() && !d.in_extra_state;
      mark(k.dir, &Dir::holds_tensors, k.tensor);
      mark(k.dir, &Dir::holds_open, k.is_open());
      mark(k.dir, &Dir::holds_dots, k.is_open() && k.has_dots());
      mark(k.dir, &Dir::holds_fqns, d.has_fqns);
    }
    for (uint32_t i = static_cast<uint32_t>(dirs.size()); i-- > 1;) {
      Dir &d = dirs[i], &up = dirs[d.parent];
      if (up.keys += d.keys; d.holds_open) ++up.open, up.open_dir = i;
    }
    if (!c.has_planner_data) return add_model(0, kRest);
    for (uint32_t i = 0; i < dirs.size(); ++i) {
      inherit(i);
      const Dir& d = dirs[i];
      const bool is_around = d.is_around_one() && d.has_named;  // state_dict.model
      const bool is_named = d.is_named && d.holds_open && !d.holds_fqns && d.model == kNone && !is_around;
      if (d.has_fqns || is_named) add_model(i, d.is_named ? kName : kTensorNames);
    }
    roots.empty() ? find_rest() : find_second_models();
  }

  // A module's state dict is flat: dicts of tensors in it are not its own, but for extra state and names with dots that are no state dict.
  void inherit(uint32_t i) {
    Dir& d = dirs[i];
    const uint32_t above = dirs[d.parent].model;
    const bool may_be_in_it = d.in_extra_state || !d.holds_tensors || (d.holds_dots && !d.holds_fqns);
    if (d.model == kNone && (may_be_in_it || d.parent != above || !dirs[above].has_fqns)) d.model = above;
  }

  // No dict is named like a model, and none has names with dots: the one dict of tensors beside what is a trainer's, or everything.
  void find_rest() {
    const bool has_objects = std::ranges::any_of(keys, [](const Key& k) { return !k.tensor && k.dir == 0; });
    const bool has_dims = std::ranges::any_of(keys, [](const Key& k) { return k.is_open() && k.tensor->rank > 0; });
    const uint32_t root = dirs[0].is_around_one() && (is_trainers || has_objects) ? dirs[0].open_dir : 0;
    if (root > 0 || has_dims || !is_trainers) add_model(root, kRest);
    for (uint32_t d = 1; d < dirs.size(); ++d) inherit(d);
  }

  // Rule 4: dicts with tensors that have parameters' names, or names of tensors of a model.
  void find_second_models() {
    std::unordered_set<std::string_view> names;
    for (const Key& k : keys)
      if (k.is_open() && dirs[k.dir].model != kNone && !k.leaf.empty()) names.insert(k.leaf);
    for (const Key& k : keys)
      mark(k.dir, &Dir::is_second, k.is_open() && !dirs[k.dir].in_extra_state && (is_parameter_name(k.leaf) || names.contains(k.leaf)));
    for (uint32_t i = 1; i < dirs.size(); ++i) {
      inherit(i);
      const Dir& d = dirs[i];
      const bool is_around = d.is_around_one() && d.keys > dirs[d.open_dir].keys;
      if (d.model == kNone && d.is_second && !d.holds_root && !is_around) add_model(i, kSecond);
    }
  }

  // The stages of a pipeline: model_parts.0, model_parts.1; pp_0.model, pp_1.model.
  void join_pieces() {
    struct Pieces {
      uint32_t first;
      bool are_apart = true, are_alike = false;
      std::unordered_map<std::string, uint32_t> names, stems;  // and whose they are; without numbers
    };
    std::unordered_map<uint64_t, Pieces> pieces;
    for (const uint32_t m : roots) pieces.try_emplace(dirs[m].alike, m);
    if (pieces.size() == roots.size()) return;
    for (const Key& k : keys) {
      const uint32_t m = dirs[k.dir].model;
      if (!k.is_open() || m == kNone) continue;
      Pieces& p = pieces.at(dirs[m].alike);
      std::string name(k.leaf);
      p.are_apart &= p.names.try_emplace(name, m).first->second == m;
      std::erase_if(name, is_digit);
      p.are_alike |= p.stems.try_emplace(name, m).first->second != m;
    }
    for (const uint32_t m : roots) {
      const Pieces& p = pieces.at(dirs[m].alike);
      if (!p.are_apart || !p.are_alike) continue;
      dirs[m].model = p.first;
      uint32_t& around = dirs[p.first].around;
      for (uint32_t d = m; d != around; d = dirs[d].parent)
        if (dirs[d].depth == dirs[around].depth) around = dirs[around].parent;
    }
  }

  // Rule 5.
  bool is_beside(const Key& k) const {
    const Dir& d = dirs[k.dir];
    const bool is_object = !k.tensor && !d.in_extra_state && !k.leaf.ends_with(kExtraState);
    const bool is_beside_root = d.model == 0 && is_trainers && (!d.holds_tensors || (k.dir == 0 && !k.has_dots()));
    return d.model == kNone || (is_object && is_beside_root);
  }

  // Components joined with dots; of a path too long to be typed the key below it.
  std::string text_of(uint32_t dir, const Key& k) const {
    std::string text;
    for (uint32_t d = dir; d != 0 && text.size() <= kLongestPath; d = dirs[d].parent) {
      const PathElement e = dirs[d].element;
      text.insert(0, (e.is_position() ? std::to_string(e.list_position()) : std::string(name(e))) + (d == dir ? "" : "."));
    }
    return text.size() <= kLongestPath ? text : std::string(k.text);
  }

  void place() {
    for (Key& k : keys) {
      if (k.sign == kOpen && is_beside(k)) k.sign = kBeside;
      mark(k.dir, &Dir::holds_model, k.sign == kOpen);
    }
    for (uint32_t d = 1; d < dirs.size(); ++d)
      if (dirs[d].top = dirs[dirs[d].parent].top; dirs[d].top == kNone && !dirs[d].holds_model) dirs[d].top = d;
    std::map<std::pair<std::string, uint32_t>, int32_t> places;  // by path, and the root of a model
    std::vector<int32_t*> of_dir(dirs.size());
    for (Key& k : keys) {
      const bool is_model = k.sign == kOpen;
      const uint32_t d = is_model ? dirs[dirs[k.dir].model].model : dirs[k.dir].top;
      int32_t*& place = d == kNone ? k.place : of_dir[d];
      if (place == nullptr) {
        const std::string_view top = k.text.substr(0, k.top > 0 ? k.top : k.text.size());
        place = &places[{d == kNone ? std::string(top) : text_of(is_model ? dirs[d].around : d, k), is_model ? d : kNone}];
      }
      k.place = place;
    }
    for (auto& [at, place] : places) {
      if (at.second == kNone) place = static_cast<int32_t>(state.groups.size()), state.groups.push_back({.path = at.first});
      else
        place = ~static_cast<int32_t>(state.models.size()), state.models.push_back({at.first, dirs[at.second].rule, dirs[at.second].depth});
    }
    state.of_tensor.resize(c.tensors.size()), state.of_blob.resize(c.blobs.size());
    for (const Key& k : keys) {
      (k.tensor ? state.of_tensor[k.ref.tensor()] : state.of_blob[k.ref.blob()]) = *k.place;
      KeyGroup& g = *k.place < 0 ? state.models[static_cast<size_t>(~*k.place)] : state.groups[static_cast<size_t>(*k.place)];
      if (*k.place >= 0) ++state.keys, g.sign = std::min(g.sign, k.sign);
      ++g.keys, g.tensors += k.tensor != nullptr, g.tensor_bytes += k.tensor ? c.tensor_bytes(*k.tensor) : 0;
    }
  }

  void find_doubtful();

  const Catalog& c;
  std::vector<Key> keys;
  std::vector<Dir> dirs;
  std::vector<uint32_t> roots;  // of models, pieces included
  bool is_trainers = false;     // there is state by rules 1 and 2
  TrainingState state;
};

// When it asks.
void Sorter::find_doubtful() {
  std::vector<std::pair<const Key*, std::string_view>> repeats, others;  // and what may be the name of a tensor, or its end
  for (const Key& k : keys) {
    if (!k.is_open()) continue;
    const std::string_view text = k.leaf, first = text.substr(0, text.find('.')), but_last = text.substr(0, text.rfind('.'));
    if (first.size() < text.size() && names_optimizer(first)) repeats.emplace_back(&k, text.substr(first.size() + 1));
    else if (but_last.size() < text.size() && is_parameter_name(but_last)) repeats.emplace_back(&k, but_last);
    else others.emplace_back(&k, text);
  }
  if (repeats.empty()) return;
  const auto shaped = [&](std::string_view name, const Key& k) { return std::string(name) + shape_text(c.dims(*k.tensor)); };
  std::unordered_map<std::string, uint64_t> named;
  for (const auto& [k, name] : others)
    for (Word w{name}; w.next_of(3);) ++named[shaped(w.rest(), *k)];
  uint64_t repeated = 0;
  std::set<std::string> globs;
  state.doubtful.resize(c.tensors.size());
  for (const auto& [k, name] : repeats)
    for (Word w{name}; w.next_of(4);) {
      const auto found = named.find(shaped(w.rest(), *k));
      if (found == named.end()) continue;
      repeated += std::exchange(found->second, 0);
      state.doubtful[k->ref.tensor()] = true;
      const std::string_view first = k->leaf.substr(0, k->leaf.find('.'));
      const size_t before = static_cast<size_t>(w.rest().data() - k->leaf.data()), dir = k->text.size() - k->leaf.size();
      const size_t kept = dir + (names_optimizer(first) ? first.size() + 1 : before);
      globs.insert(before == 0 ? "*" + std::string(k->leaf.substr(name.size())) : std::string(k->text.substr(0, kept)) + "*");
      break;
    }
  if (2 * repeated <= others.size()) state.doubtful.clear();
  else state.doubtful_globs.assign(globs.begin(), globs.end());
}

}  // namespace

bool TrainingState::has_state() const {
  return std::ranges::any_of(groups, [](const KeyGroup& g) { return g.sign != kBeside || g.tensors > 0; });
}

bool is_optimizers(const KeyGroup& g) {
  const std::string_view name = std::string_view(g.path).substr(g.path.rfind('.') + 1);
  return g.sign <= kSlots || (g.sign == kName && (name.starts_with("opt") || names_optimizer(name)));
}

// Of the model all but its _extra_state; where the model is an object, or there is none, also what stands in its place.
Weights TrainingState::weights_in(const Catalog& catalog, BlobId blob) const {
  const std::string_view key = catalog.key(catalog.blobs[blob]);
  const KeyRef ref = KeyRef::blob_at(blob);
  if (key.find(kExtraState) != std::string_view::npos) return Weights::kNot;
  if (is_model(ref)) return model_of(ref).components > 0 ? Weights::kAny : Weights::kOwnWay;
  const bool is_in_place = group_of(ref).sign == kBeside && (models.empty() || names_model(key.substr(key.rfind('.') + 1)));
  return is_in_place ? Weights::kOwnWay : Weights::kNot;
}

TrainingState find_training_state(const Catalog& catalog) { return Sorter(catalog).state; }

}  // namespace dcp
