#include "catalog/optimizer_state.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "catalog/state_names.h"

namespace dcp {
namespace {

// What optimizers call what they keep of a parameter: torch.optim, Adafactor, bitsandbytes, Muon, Lion, Shampoo, apex. Names that a module
// would hardly have.
constexpr auto kSlots =
    std::to_array<std::string_view>({"acc_delta", "exp_avg", "exp_avg_diff", "exp_avg_res", "exp_avg_slow", "exp_avg_sq", "exp_avg_sq_col",
                                     "exp_avg_sq_row", "exp_inf", "max_exp_avg_sq", "momentum_buffer", "prev_flat_grad", "square_avg"});
static_assert(std::ranges::is_sorted(kSlots));
// Names that mean it only beside `step`, below `state`.
constexpr std::string_view kWeakSlots[] = {"absmax1", "ax",    "col_var", "eta",    "master_param", "mu",  "mu_product",
                                           "prev",    "qmap1", "row_var", "state1", "step_size",    "sum", "variance"};
constexpr std::string_view kHyperparameters[] = {"lr",       "initial_lr", "betas",    "eps",    "weight_decay",
                                                 "momentum", "dampening",  "nesterov", "params", "param_names"};

// A set of slots as bits: those of kSlots, then these.
constexpr uint32_t kWeakBit = 1u << 30, kStepBit = 1u << 31;
static_assert(kSlots.size() < 30);

bool is_integer(std::string_view word) { return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos; }
template <class List>
bool is_one_of(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != std::ranges::end(list);
}

// Keys are cut at their dots. A prefix is known by its hash, so that all prefixes of a key take time in proportion to its bytes (FNV-1a).
constexpr uint64_t kEmptyHash = 0xcbf29ce484222325;
uint64_t extended(uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}
uint64_t joined_hash(uint64_t prefix, std::string_view word) {
  return extended(prefix == kEmptyHash ? prefix : extended(prefix, "."), word);
}

struct Word {
  std::string_view text;
  uint32_t begin = 0, end = 0;       // in the key
  uint64_t before = 0, through = 0;  // hashes of the prefix that ends before it (without the dot), and with it
  bool is_last = false;
};

// Calls fn(word) for each word in order until it returns false.
template <class Fn>
void for_words(std::string_view key, Fn&& fn) {
  uint64_t before = kEmptyHash;
  for (size_t at = 0;;) {
    const size_t end = std::min(key.find('.', at), key.size());
    Word w{.text = key.substr(at, end - at),
           .begin = static_cast<uint32_t>(at),
           .end = static_cast<uint32_t>(end),
           .before = before,
           .is_last = end == key.size()};
    w.through = at == 0 ? extended(kEmptyHash, w.text) : extended(extended(before, "."), w.text);
    if (!fn(w) || w.is_last) return;
    before = w.through;
    at = end + 1;
  }
}

// The hash of a text from its end, so that all suffixes of a key take time in proportion to its bytes.
uint64_t hash_from_end(std::string_view text) {
  uint64_t hash = kEmptyHash;
  for (size_t i = text.size(); i-- > 0;) hash = extended(hash, text.substr(i, 1));
  return hash;
}
// Calls fn(hash) for each suffix of whole words.
template <class Fn>
void for_suffixes(std::string_view key, Fn&& fn) {
  uint64_t hash = kEmptyHash;
  for (size_t i = key.size(); i-- > 0; hash = extended(hash, key.substr(i, 1)))
    if (key[i] == '.') fn(hash);
  fn(hash);
}

// Sorted hashes behind a filter that most questions do not pass.
class PrefixSet {
 public:
  explicit PrefixSet(std::vector<uint64_t> hashes) : hashes_(std::move(hashes)) {
    std::ranges::sort(hashes_);
    hashes_.erase(std::ranges::unique(hashes_).begin(), hashes_.end());
    size_t bits = 64;
    while (bits < hashes_.size() * 16) bits *= 2;
    filter_.resize(bits);
    for (const uint64_t h : hashes_) filter_[place(h)] = true;
  }
  bool empty() const { return hashes_.empty(); }
  bool contains(uint64_t h) const { return filter_[place(h)] && std::ranges::binary_search(hashes_, h); }

 private:
  size_t place(uint64_t h) const { return ((h ^ (h >> 29)) * 0x9E3779B97F4A7C15u >> 20) & (filter_.size() - 1); }
  std::vector<uint64_t> hashes_;
  std::vector<bool> filter_;
};

class Finder {
 public:
  explicit Finder(const Catalog& c) : c_(c) {}

  std::vector<OptimizerKey> find() {
    for (uint32_t k = 0; k < c_.order.size(); ++k) look(k);
    judge_optimizers();
    judge_siblings();
    judge_states();
    std::vector<OptimizerKey> keys(c_.order.size());
    const Prefixes prefixes{PrefixSet(std::move(groups_)), PrefixSet(std::move(slots_)), PrefixSet(std::move(beside_))};
    if (prefixes.groups.empty() && prefixes.slots.empty() && prefixes.beside.empty()) return keys;
    for (size_t k = 0; k < keys.size(); ++k) keys[k] = judged(c_.key(c_.order[k]), prefixes);
    return keys;
  }

 private:
  // What all below is an optimizer's, by what says so.
  struct Prefixes {
    PrefixSet groups, slots, beside;
  };

  bool is_scalar(KeyRef ref) const { return ref.is_blob() || c_.elements(c_.tensors[ref.tensor()]) == 1; }

  // Siblings that would say together what one alone does not.
  struct Sibling {
    uint64_t parent;
    uint64_t subtree;  // what it stands for
    uint32_t bits;
    bool of_weight = false;  // by the rest of the key
    uint64_t model = 0;      // the `model` or `module` that it is below, with no `state` between; 0: none
    auto operator<=>(const Sibling&) const = default;
  };

  // A tensor S.<x>.<slot> below S, which ends with `state`, or S.<x> below an S that is a slot's name.
  struct BelowState {
    uint64_t state = 0;      // hash of S
    uint64_t parameter = 0;  // of x, from its end; 0: there is none
    uint32_t key = 0;        // position in the order
    uint32_t state_end = 0;  // in the key
    bool has_dots = false;   // x has
    bool may_differ = false;
  };

  // Notes what the key shows.
  void look(uint32_t k) {
    const KeyRef ref = c_.order[k];
    const std::string_view key = c_.key(ref);
    if (!ref.is_blob() && key.find("state.") != std::string_view::npos) note_states(k, key);
    Word state, next;          // the deepest `state` so far, and the word below it
    uint32_t below_state = 0;  // words below it so far
    uint64_t model = 0;        // the first `model` or `module`
    bool has_state = false, state_in_model = false;
    const auto sibling = [&](const Word& w, uint32_t bits) {
      const std::string_view parameter = w.is_last ? key.substr(0, w.begin - (w.begin > 0)) : key;
      siblings_.push_back({w.before, w.through, bits, is_parameter_name(parameter), has_state ? 0 : model});
    };
    for_words(key, [&](const Word& w) {
      if (w.text == "param_groups") {
        const size_t last = key.rfind('.');
        if (!ref.is_blob() && !is_one_of(kHyperparameters, key.substr(last + 1))) return false;
        groups_.insert(groups_.end(), {w.through, joined_hash(w.before, "state")});
        if (w.begin > 0) optimizers_.push_back(w.before);
        return false;
      }
      if (const auto slot = std::ranges::lower_bound(kSlots, w.text); slot != kSlots.end() && *slot == w.text) {
        sibling(w, 1u << (slot - kSlots.begin()));
        if (!has_state && model == 0 && !w.is_last && !ref.is_blob()) note_below(k, w, key.substr(w.end + 1));
        if (!has_state || state_in_model) return false;
        const bool by_position = below_state == 1 && is_integer(next.text);
        // Composer keeps a model below a `state`, too.
        const bool may_be_module = (next.text == "model" || next.text == "module") && !is_parameter_name(key.substr(0, w.begin - 1));
        if (w.is_last && below_state > 0 && may_be_module) beside_.push_back(w.through);
        else if (w.is_last && below_state > 0) slots_.push_back(by_position ? state.through : w.before);
        else if (!w.is_last && below_state == 0) slots_.push_back(state.through);
        return false;
      }
      if (w.is_last) {
        const bool at_position = has_state && below_state == 1 && is_integer(next.text);
        if (w.text == "step" && is_scalar(ref)) {
          sibling(w, kStepBit);
          if (at_position) steps_.push_back({w.before, state.through});
        } else if (has_state && below_state > 0 && is_one_of(kWeakSlots, w.text)) {
          sibling(w, kWeakBit);
        } else if (at_position && (w.text == "weight" || w.text == "bias")) {
          modules_.push_back(w.before);
        }
        return false;
      }
      if (w.text == "state") {
        state = w;
        state_in_model = has_state ? state_in_model : model != 0;  // parameters may be called anything
        has_state = true;
        below_state = 0;
      } else if (has_state && below_state++ == 0) {
        next = w;
      }
      if (model == 0 && (w.text == "model" || w.text == "module")) model = w.through;
      return true;
    });
  }

  void judge_optimizers() {
    if (optimizers_.empty()) return;
    const PrefixSet asked(std::move(optimizers_));
    std::unordered_set<uint64_t> have_state, have_models;
    for (const KeyRef ref : c_.order) {
      for_words(c_.key(ref), [&](const Word& w) {
        if (w.begin > 0 && asked.contains(w.before)) {
          if (w.text == "state") have_state.insert(w.before);
          else if (is_root_name(w.text)) have_models.insert(w.before);
        }
        return true;
      });
    }
    for (const uint64_t p : have_state)
      if (!have_models.contains(p)) groups_.push_back(p);
    optimizers_ = {};
  }

  void judge_siblings() {
    std::vector<Sibling> in_models;
    std::ranges::sort(siblings_);
    for (size_t i = 0; i < siblings_.size();) {
      size_t end = i;
      uint32_t bits = 0;
      bool of_weights = false;
      for (; end < siblings_.size() && siblings_[end].parent == siblings_[i].parent; ++end) {
        bits |= siblings_[end].bits;
        of_weights = of_weights || siblings_[end].of_weight;
      }
      const bool strong = (bits & ~(kStepBit | kWeakBit)) != 0;
      const bool several = (bits & (bits - 1)) != 0;
      for (; i < end; ++i) {
        const bool is_slot = several && (strong || (bits & kStepBit) != 0);
        if (is_slot && siblings_[i].model == 0) (of_weights ? slots_ : beside_).push_back(siblings_[i].subtree);
        else if (is_slot) in_models.push_back(siblings_[i]);
        else if (strong) alone_.push_back(siblings_[i]);
      }
    }
    judge_in_models(in_models);
    judge_alone();
    // `state.0.step` alone is an optimizer's, unless what has the step is a module.
    std::ranges::sort(modules_);
    for (const auto& [parent, state] : steps_)
      if (!std::ranges::binary_search(modules_, parent)) slots_.push_back(state);
    siblings_ = {};
    steps_ = {};
    modules_ = {};
  }

  // A module may keep averages in buffers of these names. An optimizer keeps them of weights, too.
  void judge_in_models(const std::vector<Sibling>& siblings) {
    std::unordered_set<uint64_t> of_weights;
    for (const Sibling& s : siblings)
      if (s.of_weight) of_weights.insert(s.model);
    for (const Sibling& s : siblings) {
      if (of_weights.contains(s.model)) slots_.push_back(s.subtree);
      else alone_.push_back(s);
    }
  }

  // One slot without others is an optimizer's where what it is of is a tensor: `w.exp_avg` beside `w`, which no module has.
  void judge_alone() {
    if (alone_.empty()) return;
    std::unordered_map<uint64_t, bool> is_tensor;
    for (const Sibling& s : alone_) is_tensor[s.parent] = false;
    for (const KeyRef ref : c_.order)
      if (!ref.is_blob())
        if (const auto it = is_tensor.find(extended(kEmptyHash, c_.key(ref))); it != is_tensor.end()) it->second = true;
    for (const Sibling& s : alone_)
      if (is_tensor.at(s.parent)) slots_.push_back(s.subtree);
    alone_ = {};
  }

  void note_below(uint32_t k, const Word& w, std::string_view parameter) {
    BelowState& b = below_.emplace_back(BelowState{.state = w.through, .key = k, .state_end = w.end, .may_differ = is_scalar(c_.order[k])});
    if (parameter.empty()) return;
    b.parameter = hash_from_end(parameter);
    b.has_dots = parameter.find('.') != std::string_view::npos;
  }

  void note_states(uint32_t k, std::string_view key) {
    constexpr int kMax = 4;  // what is called `state` again and again is no optimizer's
    const std::string_view before_slot = key.substr(0, std::max(key.rfind('.'), size_t{1}));
    int seen = 0;
    for_words(key, [&](const Word& w) {
      if (w.is_last || w.text == "model" || w.text == "module" || seen == kMax) return false;
      if (w.text != "state") return true;
      ++seen;
      note_below(k, w, before_slot.substr(std::min<size_t>(w.end + 1, before_slot.size())));
      return true;
    });
  }

  // S is an optimizer's where all in it is called like tensors elsewhere, one word more: S.0.weight.anything, and net.0.weight.
  void judge_states() {
    if (below_.empty()) return;
    std::vector<uint64_t> parameters;
    for (const BelowState& b : below_) parameters.push_back(b.parameter);
    const PrefixSet asked(std::move(parameters));
    // The first and the last key that ends so. Keys are sorted: if one is not below S, one of these is not.
    std::unordered_map<uint64_t, std::pair<uint32_t, uint32_t>> found;
    for (uint32_t k = 0; k < c_.order.size(); ++k) {
      if (c_.order[k].is_blob()) continue;
      for_suffixes(c_.key(c_.order[k]), [&](uint64_t hash) {
        if (asked.contains(hash)) found.try_emplace(hash, k, k).first->second.second = k;
      });
    }
    const auto is_elsewhere = [&](const BelowState& b) {
      const auto it = found.find(b.parameter);
      if (it == found.end()) return false;
      const std::string_view state = c_.key(c_.order[b.key]).substr(0, b.state_end + 1);
      return !c_.key(c_.order[it->second.first]).starts_with(state) || !c_.key(c_.order[it->second.second]).starts_with(state);
    };
    std::ranges::sort(below_, {}, [](const BelowState& b) { return std::pair(b.state, b.parameter); });
    for (size_t i = 0; i < below_.size();) {
      const uint64_t state = below_[i].state;
      bool all = true, has_dots = false;
      uint64_t first = 0, names = 0;  // of parameters: one without dots, as `weight`, may be a module's by chance
      for (; i < below_.size() && below_[i].state == state; ++i) {
        const BelowState& b = below_[i];
        if (!is_elsewhere(b)) {
          all = all && b.may_differ;
        } else {
          has_dots = has_dots || b.has_dots;
          names += b.parameter != first;
          first = b.parameter;
        }
      }
      if (all && (has_dots || names > 1)) slots_.push_back(state);
    }
    below_ = {};
  }

  static OptimizerKey judged(std::string_view key, const Prefixes& all) {
    OptimizerKey found;
    uint32_t state = 0, first = 0;  // ends of the words before the deepest `state` or `param_groups`, and of the first word
    bool in_state = false;
    for_words(key, [&](const Word& w) {
      if (w.begin == 0) first = w.end;
      if (w.text == "state" || w.text == "param_groups") {
        state = w.begin == 0 ? w.end : w.begin - 1;
        in_state = true;
      }
      const bool is_groups = all.groups.contains(w.through), is_slots = all.slots.contains(w.through);
      if (!is_groups && !is_slots && (found.beside != 0 || !all.beside.contains(w.through))) return true;
      const bool is_whole = is_groups && w.text != "state" && w.text != "param_groups";
      found.top = is_whole ? w.end : in_state ? state : first;
      found.sign = is_groups ? OptimizerSign::kParamGroups : OptimizerSign::kSlots;
      const bool is_sure = is_groups || is_slots;
      found.beside = is_sure || w.begin == 0 ? 0 : w.begin - 1;
      return !is_sure;
    });
    return found;
  }

  const Catalog& c_;
  std::vector<uint64_t> groups_, slots_, beside_;  // prefixes below which all is an optimizer's
  std::vector<uint64_t> optimizers_;               // what holds `param_groups`
  std::vector<Sibling> siblings_, alone_;
  std::vector<std::pair<uint64_t, uint64_t>> steps_;  // of `state.0.step`: 'state.0', 'state'
  std::vector<uint64_t> modules_;                     // `state.0` that has weights
  std::vector<BelowState> below_;
};

}  // namespace

std::vector<OptimizerKey> find_optimizer_keys(const Catalog& catalog) { return Finder(catalog).find(); }

}  // namespace dcp
