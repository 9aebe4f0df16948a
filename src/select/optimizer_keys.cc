#include "select/optimizer_keys.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "base/text.h"
#include "select/training_state.h"

namespace dcp {
namespace {

// torch.optim, Adafactor, bitsandbytes, Muon, Lion, Shampoo, Megatron: names that a module would hardly have.
constexpr auto kSlots = std::to_array<std::string_view>({"acc_delta", "exp_avg", "exp_avg_diff", "exp_avg_res", "exp_avg_slow",
                                                         "exp_avg_sq", "exp_avg_sq_col", "exp_avg_sq_row", "exp_inf", "fp32_param",
                                                         "max_exp_avg_sq", "momentum_buffer", "prev_flat_grad", "square_avg"});
static_assert(std::ranges::is_sorted(kSlots));
// What may be a tensor below param_groups. A module can have a list of parameters of that name.
constexpr auto kHyperparameters =
    std::to_array<std::string_view>({"betas", "dampening", "eps", "initial_lr", "lr", "momentum", "nesterov", "params", "weight_decay"});
static_assert(std::ranges::is_sorted(kHyperparameters));

// A key is cut at its dots. A prefix of whole words is known by its hash (FNV-1a), so that all those of a key take time in proportion to its bytes.
uint64_t extended(uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}
struct Word {
  std::string_view text;
  size_t begin;              // in the key
  uint64_t before, through;  // hashes of what ends before it, with the dot, and with it
};
// Calls fn(word) for each word in order until it returns false.
template <class Fn>
void for_words(std::string_view key, Fn&& fn) {
  uint64_t before = 0xcbf29ce484222325;
  for (size_t at = 0, end = 0; at <= key.size(); at = end + 1) {
    end = std::min(key.find('.', at), key.size());
    const std::string_view text = key.substr(at, end - at);
    const Word w{text, at, before, extended(before, text)};
    if (!fn(w)) return;
    before = extended(w.through, ".");
  }
}

class Finder {
 public:
  explicit Finder(const Catalog& c) : c_(c), signs_(c.order.size()) {}

  std::vector<KeySign> find() {
    for (size_t k = 0; k < signs_.size(); ++k) look(k);
    for (size_t k = 0; k < signs_.size() && !optimizers_.empty(); ++k) sign(k);
    return std::move(signs_);
  }

 private:
  bool is_scalar(KeyRef ref) const { return ref.is_blob() || c_.elements(c_.tensors[ref.tensor()]) == 1; }

  void look(size_t k) {
    const KeyRef ref = c_.order[k];
    const std::string_view key = c_.key(ref);
    std::string_view next;          // the word below the deepest `state` so far,
    uint64_t state = 0, below = 0;  // which has this hash, and so many words below it
    bool below_model = false;
    for_words(key, [&](const Word& w) {
      const size_t end = w.begin + w.text.size();
      if (w.text == "param_groups") {
        if (!ref.is_blob() && !std::ranges::binary_search(kHyperparameters, key.substr(key.rfind('.') + 1))) return false;
        optimizers_[w.through] = optimizers_[extended(w.before, "state")] = StateSign::kParamGroups;
        return false;
      }
      if (is_slot(w.text)) {
        const bool is_last = end == key.size();
        if (state != 0 && (below > 0 ? is_tensors(k, w, next, below) : !is_last)) optimizers_.try_emplace(state, StateSign::kSlots);
        else if (is_of_tensor(key, w)) signs_[k].sign = StateSign::kSlots;
        else if (!is_last && c_.has_key(key.substr(end + 1))) signs_[k] = {StateSign::kSlots, static_cast<uint32_t>(end)};
        return false;
      }
      if (w.text == "step" && end == key.size() && is_scalar(ref)) {
        const bool of_number = below == 1 && is_number(next) && !c_.has_key(std::string(key.substr(0, w.begin)) + "weight");
        if (of_number || (state != 0 && is_parameter_name(key.substr(0, w.begin - 1)))) optimizers_.try_emplace(state, StateSign::kSlots);
        else if (is_of_tensor(key, w)) signs_[k].sign = StateSign::kSlots;
      }
      if (w.text == "state" && !below_model) state = w.through, below = 0;
      else if (state != 0 && below++ == 0) next = w.text;
      below_model = below_model || (state == 0 && names_model(w.text) && w.text != "state_dict");
      return true;
    });
  }

  // Nothing else has a key below that of a tensor; no module has a child in the place of its weight.
  bool is_of_tensor(std::string_view key, const Word& w) const {
    const std::string_view before = key.substr(0, w.begin - (w.begin > 0));
    return w.begin > 0 && (is_parameter_name(before) || c_.has_key(before));
  }

  // Whether the slot `w` below a `state` is an optimizer's: of a numbered parameter, of one that is called so, or a key of the parameter's own
  // dict. A module called `state` may have it in a buffer, and trainers keep models below a `state`, too.
  bool is_tensors(size_t k, const Word& w, std::string_view next, uint64_t below) const {
    const std::string_view key = c_.key(c_.order[k]);
    if ((below == 1 && is_number(next)) || is_parameter_name(key.substr(0, w.begin - 1))) return true;
    const PathRange path = c_.order[k].is_blob() ? c_.blobs[c_.order[k].blob()].path : c_.tensors[c_.order[k].tensor()].path;
    if (path.count < 3 || names_model(next)) return false;
    const PathElement last = c_.path_elements[path.first + path.count - 1];
    return !last.is_position() && c_.strings[last.name_id()] == w.text;
  }

  void sign(size_t k) {
    for_words(c_.key(c_.order[k]), [&](const Word& w) {
      const auto found = optimizers_.find(w.through);
      if (found == optimizers_.end()) return true;
      signs_[k] = {found->second, static_cast<uint32_t>(w.begin > 0 ? w.begin - 1 : w.text.size())};
      return false;
    });
  }

  const Catalog& c_;
  std::vector<KeySign> signs_;
  std::unordered_map<uint64_t, StateSign> optimizers_;  // by the hash of a prefix, below which all is an optimizer's
};

}  // namespace

bool is_slot(std::string_view word) { return std::ranges::binary_search(kSlots, word); }

bool is_number(std::string_view word) { return is_digits(word) && word.size() < 20; }

bool is_parameter_name(std::string_view name) {
  return name.ends_with("weight") || name.ends_with("bias") || name.ends_with("running_mean") || name.ends_with("running_var");
}

std::vector<KeySign> find_optimizer_keys(const Catalog& catalog) { return Finder(catalog).find(); }

}  // namespace dcp
