#include "maps/builtin.h"

#include <algorithm>

#include "maps/builtin_texts.h"
#include "maps/keys.h"

namespace dcp::maps {
namespace {

std::string_view dialect_of(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// Of a text that is not read yet.
bool has_family(std::string_view text, std::string_view family) {
  for (size_t at = 0; at < text.size();) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    if (!line.starts_with("family ")) continue;
    for (size_t found = line.find(family); found != line.npos; found = line.find(family, found + 1))
      if (line[found - 1] == ' ' && (found + family.size() == line.size() || line[found + family.size()] == ' ')) return true;
  }
  return false;
}

std::string names() {
  std::string all;
  for (const BuiltinMap& m : builtin_maps()) all += (all.empty() ? "" : ", ") + std::string(m.name);
  return all;
}

}  // namespace

std::span<const BuiltinMap> builtin_maps() { return kBuiltinTexts; }

ModelMap builtin_map(std::string_view name, const Limits& limits) {
  for (const BuiltinMap& m : builtin_maps())
    if (m.name == name) return read_map(m.text, std::string(name), limits);
  const size_t dot = name.rfind('.');
  for (const BuiltinMap& m : builtin_maps()) {
    if (dot == std::string_view::npos || dialect_of(m.name) != name.substr(dot + 1)) continue;
    if (has_family(m.text, name.substr(0, dot))) return read_map(m.text, std::string(m.name), limits);
  }
  fail(ProblemId::map_unknown, {}, std::string(name), "one of " + names());
}

Auto auto_map(std::string_view model_type, const std::string& config_path, std::span<const std::string_view> keys, const Limits& limits) {
  if (model_type.empty()) fail(ProblemId::map_config, {.path = config_path}, "no model_type", "it, by which a map is looked for");
  Auto found;
  std::string tried, several;
  bool are_published = false;
  for (const BuiltinMap& m : builtin_maps()) {
    if (!has_family(m.text, model_type)) continue;
    ModelMap map = read_map(m.text, std::string(m.name), limits);
    const Fit left = fit_of(map, Side::kLeft, keys);
    const bool is_right = fit_of(map, Side::kRight, keys).taken == keys.size();
    are_published = are_published || is_right;
    if (is_right && dialect_of(m.name) == "transformers") found.published = map;
    tried += (tried.empty() ? "" : "; ") + std::string(m.name) + " does not take " + shortened(left.untaken);
    if (left.taken < keys.size()) continue;
    several += (several.empty() ? "" : ", ") + std::string(m.name);
    found.maps.push_back(std::move(map));
  }
  if (found.maps.size() > 1) fail(ProblemId::map_auto_several, {}, several);
  if (found.maps.empty() && !are_published)
    fail(ProblemId::map_auto_none, {}, tried.empty() ? "the model_type " + std::string(model_type) + ", for which there is none" : tried,
         tried.empty() ? "one of " + names() : std::string());
  return found;
}

std::string_view tried_against(std::string_view dialect) {
  if (dialect == "torchtitan") return "torchtitan 0.3";
  if (dialect == "transformers") return "transformers 5.23";
  return "Megatron-Core 0.16";
}

}  // namespace dcp::maps
