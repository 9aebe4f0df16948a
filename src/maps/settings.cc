#include "maps/settings.h"

#include <algorithm>

namespace dcp::maps {
namespace {

void paths_of(const Expression& e, std::vector<std::string_view>& all) {
  if (e.kind == Expression::Kind::kPath) all.push_back(e.path);
  for (const Expression& part : e.of) paths_of(part, all);
}

// Whether it is a key of config.json that the map asks for.
bool is_path(const ModelMap& map, const std::string& name) {
  std::vector<std::string_view> paths;
  const auto add = [&](const std::vector<Condition>& conditions) {
    for (const Condition& c : conditions) paths.insert(paths.end(), c.paths.begin(), c.paths.end());
  };
  for (const Size& s : map.sizes) paths_of(s.value, paths);
  for (const Line& l : map.lines) add(l.conditions);
  for (const Block& b : map.blocks)
    for (const Branch& branch : b.branches) add(branch.conditions);
  return std::ranges::find(paths, name) != paths.end();
}

}  // namespace

bool holds(const std::vector<Condition>& conditions, const Config& config) {
  return std::ranges::all_of(conditions, [&](const Condition& c) {
    for (const std::string& path : c.paths) {
      if (path == "true") return !c.unless;
      if (config.has(path)) return config.is_true(path) != c.unless;
    }
    return c.unless;
  });
}

bool asks_for(const ModelMap& map, const std::string& name) {
  const bool is_word = map.word_ids.contains(name) && !(name[0] >= '0' && name[0] <= '9');
  return is_word || std::ranges::any_of(map.variables, [&](const Variable& v) { return v.name == name; }) ||
         std::ranges::any_of(map.blocks, [&](const Block& b) { return b.choice == name; }) || is_path(map, name);
}

void apply_settings(const ModelMap& map, const std::vector<Setting>& settings, Config& config) {
  for (const Setting& s : settings) {
    if (!asks_for(map, s.name))
      fail(ProblemId::map_setting, {.path = map.name}, s.name, "a size, an axis, a choice or a key of config.json that the map names");
    if (is_path(map, s.name)) config.set(s);
  }
}

}  // namespace dcp::maps
