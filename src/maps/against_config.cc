#include "maps/against_config.h"

#include <optional>
#include <string>
#include <string_view>

#include "base/quantity.h"
#include "maps/builtin.h"
#include "maps/sizes.h"

namespace dcp::maps {
namespace {

struct Dim {
  std::string_view ending;  // of a tensor of the language model
  size_t dim = 0;
  std::string_view size;  // in config.json
};
constexpr Dim kDims[] = {
    {".embed_tokens.weight", 0, "vocab_size"},
    {".embed_tokens.weight", 1, "hidden_size"},
    {"lm_head.weight", 0, "vocab_size"},
    {"lm_head.weight", 1, "hidden_size"},
    {".input_layernorm.weight", 0, "hidden_size"},
    {".self_attn.q_proj.weight", 1, "hidden_size"},
    {".mlp.gate_proj.weight", 0, "intermediate_size"},
    {".mlp.gate_proj.weight", 1, "hidden_size"},
};

bool is_of_language(std::string_view key) {
  for (const std::string_view word : {"vis", "audio", "image", "multi_modal", "mtp"})
    if (key.find(word) != key.npos) return false;
  return key.starts_with("model.") || key.starts_with("lm_head.") || key.starts_with("language_model.");
}

// A value that is not a number, such as a list with one per layer, is not compared.
std::optional<std::pair<std::string, uint64_t>> number_of(const Config& config, std::string_view size) {
  for (const std::string& path : {std::string(size), "text_config." + std::string(size)}) {
    try {
      if (const auto number = config.number(path)) return std::pair(path, *number);
    } catch (const Error&) {
      return {};
    }
  }
  return {};
}

// Layers may differ in it: none has the size of config.json.
void check(const Dim& dim, const Config& config, const std::vector<Source>& published) {
  const auto size = number_of(config, dim.size);
  if (!size) return;
  const Source* other = nullptr;
  for (const Source& s : published) {
    if (!s.key.ends_with(dim.ending) || !is_of_language(s.key) || dim.dim >= s.shape.size()) continue;
    if (static_cast<uint64_t>(s.shape[dim.dim]) == size->second) return;
    if (other == nullptr) other = &s;
  }
  if (other == nullptr) return;
  Problem p = make_problem(ProblemId::map_config, {.path = config.path(), .tensor = std::string(other->key)},
                           size->first + " = " + std::to_string(size->second),
                           std::to_string(other->shape[dim.dim]) + ", by the shape " + shape_text(other->shape));
  p.what = "the model differs from its configuration and will not load";
  throw Error(std::move(p));
}

}  // namespace

void check_against(const Config& config, const std::vector<Source>& published) {
  if (const auto map = family_map(config.model_type(), "transformers", Limits())) {
    try {
      resolve(*map, config, {.from = Side::kRight, .unmapped = Unmapped::kDrop, .may_mix_dtypes = true}, published, Limits());
    } catch (const Error& e) {
      Problem p = e.problem();
      // Another map says what is missing or has no place.
      if (p.id == ProblemId::map_size_differs || p.id == ProblemId::map_size_remainder) {
        p.what = "the model differs from its configuration and will not load";
        throw Error(std::move(p));
      }
    }
  }
  for (const Dim& dim : kDims) check(dim, config, published);
}

}  // namespace dcp::maps
