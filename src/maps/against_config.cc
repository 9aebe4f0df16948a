#include "maps/against_config.h"

#include <optional>
#include <set>
#include <string_view>

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

}  // namespace

std::vector<Problem> config_differences(std::span<const IndexMap> published, const Config& config) {
  std::vector<Problem> all;
  std::set<std::string_view> told;
  for (const Dim& d : kDims) {
    const auto size = number_of(config, d.size);
    if (!size) continue;
    for (const IndexMap& m : published) {
      if (!m.key.ends_with(d.ending) || !is_of_language(m.key) || d.dim >= m.shape.size()) continue;
      if (static_cast<uint64_t>(m.shape[d.dim]) == size->second || !told.insert(d.size).second) continue;
      std::string shape;
      for (const int64_t n : m.shape) shape += (shape.empty() ? "[" : ", ") + std::to_string(n);
      all.push_back(make_problem(ProblemId::map_config, {.path = config.path(), .tensor = m.key}, shape + "]",
                                 size->first + " = " + std::to_string(size->second)));
      all.back().what = "the model differs from its configuration and will not load";
    }
  }
  return all;
}

}  // namespace dcp::maps
