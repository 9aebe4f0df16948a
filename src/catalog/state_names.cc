#include "catalog/state_names.h"

#include <algorithm>

namespace dcp {
namespace {

constexpr std::string_view kStateNames[] = {
    "optim", "optimizer", "optimizers", "optimizer_state", "optimizer_states", "opt_state", "opt_states", "lr_scheduler", "lr_schedulers",
    "train_state", "dataloader", "dataloaders", "rng_state", "rng_states", "random_states", "ema_optimizer", "global_step",
    "rerun_state_machine_state", "hparams",
    // Beside DeepSpeed's `module`.
    "frozen_param_fragments",
    // What the tutorials of torch and Lightning's .ckpt files call the same.
    "optimizer_state_dict", "optim_state_dict", "optim_state", "optim_states", "scheduler_state_dict", "lr_scheduler_state_dict",
    "scaler_state_dict", "hyper_parameters", "hparams_name", "pytorch-lightning_version"};
// Modules and parameters have these names as well.
constexpr std::string_view kDoubtfulNames[] = {"scheduler", "schedulers", "scaler", "rng",      "epoch",
                                               "step",      "iteration",  "loops",  "callbacks"};
constexpr std::string_view kOptimizerWords[] = {"opt",  "optim",   "optimizer", "optimizers", "adam", "adamw", "sgd",
                                                "muon", "adagrad", "adafactor", "rmsprop",    "lion", "lamb",  "shampoo"};
constexpr std::string_view kCopyWords[] = {
    "ema",     "swa",      "avg",       "average",    "averaged",   "averages",  "shadow",  "shadows", "teacher", "teachers",
    "student", "students", "target",    "targets",    "model",      "models",    "net",     "nets",    "copy",    "copies",
    "best",    "snapshot", "snapshots", "checkpoint", "opponent",   "opponents", "player",  "players", "agent",   "agents",
    "member",  "members",  "ensemble",  "league",     "population", "client",    "clients", "folds",   "experts", "checkpoints"};
constexpr std::string_view kModuleEndings[] = {"_proj",  "_projection", "_net",        "_network", "_head",
                                               "_embed", "_embedding",  "_embeddings", "_encoder", "_decoder",
                                               "_layer", "_layers",     "_norm",       "_mlp",     "_adapter"};
// Below these nothing is judged by its name.
constexpr std::string_view kModelNames[] = {"model", "model_state_dict", "model_state", "model_parts", "module", "net", "network"};
constexpr std::string_view kStateDict = "state_dict";

// A component may be shared by many keys and be long: only so much of its end is looked at.
constexpr size_t kLookedAt = 256;
std::string_view end_of(std::string_view name) { return name.substr(name.size() - std::min(name.size(), kLookedAt)); }

template <class List>
bool is_one_of(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != std::ranges::end(list);
}

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

// Whether `is` holds for a word between underscores, in lower case: actor_optimizer, Adam, and optimizerG as `optimizer`.
template <class Fn>
bool any_word(std::string_view name, Fn&& is) {
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('_', at), name.size());
    std::string word(name.substr(at, end - at));
    if (word.size() > 1 && is_upper(word.back()) && !is_upper(word[word.size() - 2])) word.pop_back();
    for (char& c : word)
      if (is_upper(c)) c = static_cast<char>(c - 'A' + 'a');
    if (is(word)) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::string_view without_number(std::string_view name) {
  if (name.size() > kLookedAt) return name;
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == name.size() || digits == 0) return name;
  name = name.substr(0, digits);
  return name.size() > 1 && name.ends_with('_') ? name.substr(0, name.size() - 1) : name;
}

std::string without_numbers(std::string_view name) {
  std::string text;
  for (const char c : end_of(name))
    if (const bool is_digit = c >= '0' && c <= '9'; !is_digit || !text.ends_with('#')) text += is_digit ? '#' : c;
  return text;
}

bool names_training_state(std::string_view component) { return is_one_of(kStateNames, without_number(component)); }

bool names_whole_state(std::string_view component) {
  const std::string_view name = without_number(component);
  return name == "train_state" || name == "global_step";
}

bool may_name_training_state(std::string_view component) {
  const std::string_view name = without_number(end_of(component));
  return is_one_of(kDoubtfulNames, name) || name.ends_with("_rng_state") || name.ends_with("_rng_states") || may_name_optimizer(component);
}

bool may_name_optimizer(std::string_view component) {
  return any_word(without_number(end_of(component)), [](std::string_view word) { return is_one_of(kOptimizerWords, word); });
}

bool names_copy(std::string_view component) {
  return any_word(without_number(end_of(component)), [](std::string_view word) { return is_one_of(kCopyWords, word); });
}

bool ends_like_module(std::string_view component) {
  return std::ranges::any_of(kModuleEndings, [&](std::string_view ending) { return component.ends_with(ending); });
}

bool is_model_name(std::string_view name) { return is_one_of(kModelNames, without_number(name)); }
bool is_root_name(std::string_view name) { return is_model_name(name) || name == kStateDict; }
bool is_state_dict(std::string_view name) { return name == kStateDict; }

bool has_dots(std::string_view name) { return end_of(name).find('.') != std::string_view::npos; }

bool is_weight_or_bias(std::string_view name) { return name.ends_with("weight") || name.ends_with("bias"); }

bool is_parameter_name(std::string_view name) {
  name = end_of(name);
  const std::string_view word = name.substr(name.rfind('.') + 1);
  return is_weight_or_bias(word) || word == "running_mean" || word == "running_var";
}

}  // namespace dcp
