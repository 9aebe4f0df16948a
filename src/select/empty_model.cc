#include "select/empty_model.h"

#include <algorithm>

#include "base/text.h"
#include "select/training_state.h"

namespace dcp {
namespace {

bool is_parameter(std::string_view key) { return key.ends_with("weight") || key.ends_with("bias"); }

struct Counts {
  uint64_t full = 0, full_parameters = 0, empty_parameters = 0;
  bool has_values = false;
  std::vector<std::string> empty, placeholders;

  // What is empty by design: a tensor by itself, a dict beside a model with values (a cache, say), one parameter beside others.
  bool is_empty(bool is_lone, bool is_beside_model, bool of_deepspeed) const {
    if (!has_values && is_beside_model && !of_deepspeed) return std::ranges::any_of(empty, is_parameter);
    if (!has_values) return !empty.empty() && (of_deepspeed || !is_lone);
    if (of_deepspeed) return full_parameters == 0 && (empty_parameters > 0 || placeholders.size() > full);
    return full_parameters == 0 && empty_parameters > 1;
  }
};

bool is_deepspeed(const Catalog& c) {
  const auto holds = [&](std::string_view name) {
    return std::ranges::any_of(c.order, [&](KeyRef ref) { return c.key(ref).starts_with(name); });
  };
  return holds("param_shapes.") && holds("module.");
}

}  // namespace

std::optional<Problem> find_empty_model(const Catalog& c) {
  if (std::ranges::none_of(c.tensors, [&](const Tensor& t) { return c.elements(t) == 0; })) return {};
  const TrainingState state = find_training_state(c);
  const bool of_deepspeed = is_deepspeed(c);
  std::vector<Counts> models(state.models.size());
  for (TensorId t = 0; t < c.tensors.size(); ++t) {
    const Tensor& tensor = c.tensors[t];
    const std::string_view key = c.key(tensor);
    if (state.of_tensor[t] >= 0) continue;
    Counts& model = models[static_cast<size_t>(~state.of_tensor[t])];
    const bool has_values = c.elements(tensor) > 0;
    model.has_values |= has_values;
    if (!has_values) model.empty.emplace_back(key);
    const bool is_float = tensor.dtype_known && facts_of(tensor.dtype).kind == DTypeKind::kFloat;
    if (!is_parameter(key) && !is_float) continue;
    const bool is_placeholder = tensor.rank == 1 && !has_values;  // what a sharded parameter leaves: no size of its own
    if (is_placeholder) model.empty_parameters += is_parameter(key), model.placeholders.emplace_back(key);
    else model.full += 1, model.full_parameters += is_parameter(key);
  }
  const bool is_lone = c.tensors.size() == 1, has_model = std::ranges::any_of(models, &Counts::has_values);
  const auto found = std::ranges::find_if(models, [&](const Counts& m) { return m.is_empty(is_lone, has_model, of_deepspeed); });
  if (found == models.end()) return {};
  std::vector<std::string>& empty = found->has_values ? found->placeholders : found->empty;
  const std::string example = counted(empty.size(), "empty tensor") + ", such as '" + shortened(empty[0]) + "'";
  Problem p = make_finding(ProblemId::model_empty, Severity::kDamage, {.path = c.path}, example);
  p.keys = std::move(empty);
  if (!of_deepspeed) return p;
  p.got = "a rank's model states of DeepSpeed ZeRO-3, whose values are in the optimizer states: " + example;
  p.hint = "zero_to_fp32.py of DeepSpeed writes the model as a file that dcpctl reads";
  return p;
}

}  // namespace dcp
