#include "maps/config.h"

#include <algorithm>

#include "base/text.h"
#include "format/json_text.h"
#include "maps/model_map.h"

namespace dcp::maps {
namespace {}  // namespace

Config Config::read(std::string_view json, std::string path, const Limits& limits) {
  Config config;
  config.path_ = std::move(path);
  const Place place{.path = config.path_};
  if (json.size() > limits.config_bytes)
    fail(ProblemId::over_limit, place, std::to_string(json.size()) + " bytes", "at most " + std::to_string(limits.config_bytes));
  walk_json(json, place, limits, ProblemId::map_config, [&](std::span<const std::string> keys, const JsonValue& v) {
    if (keys.empty()) return;
    std::string at;
    for (const std::string& key : keys) {
      if (key.empty() && &key != &keys.front()) {  // an element of an array: all that counts is that there is one, and the first text
        Value& array = config.values_[at];
        array.kind = Kind::kFull;
        if (array.text.empty()) array.text = v.text;
        return;
      }
      at += (at.empty() ? "" : ".") + key;
    }
    Value value;
    using JsonKind = JsonValue::Kind;
    switch (v.kind) {
      case JsonKind::kNull: break;
      case JsonKind::kFalse:
      case JsonKind::kArray:
      case JsonKind::kObject: value.kind = Kind::kEmpty; break;
      case JsonKind::kNatural: value = {.kind = Kind::kNumber, .number = v.number, .text = {}}; break;
      case JsonKind::kText: value = {.kind = Kind::kText, .number = 0, .text = std::string(v.text)}; break;
      case JsonKind::kTrue:
      case JsonKind::kOther: value.kind = Kind::kFull; break;
    }
    if (!config.values_.try_emplace(at, std::move(value)).second) fail(ProblemId::map_config, place, "the key " + at + " twice");
    const size_t dot = at.rfind('.');
    if (keys.size() > 1 && dot != std::string::npos) config.values_[at.substr(0, dot)].kind = Kind::kFull;
  });
  return config;
}

void Config::set(const Setting& setting) {
  Value value{.kind = Kind::kText, .number = 0, .text = setting.value, .is_set = true};
  if (const auto n = decimal<uint64_t>(setting.value)) value.kind = Kind::kNumber, value.number = *n;
  else if (setting.value == "null") value.kind = Kind::kNull;
  else if (setting.value == "true") value.kind = Kind::kFull;
  else if (setting.value == "false") value.kind = Kind::kEmpty;
  values_[setting.name] = std::move(value);
}

Config Config::within(std::string_view path) const {
  Config part = *this;
  const std::string prefix = std::string(path) + ".";
  for (auto it = values_.lower_bound(prefix); it != values_.end() && it->first.starts_with(prefix); ++it) {
    const std::string key = it->first.substr(prefix.size());
    if (key != "tie_word_embeddings" || !has(key)) part.values_[key] = it->second;
  }
  part.values_.erase("architectures");  // of the whole
  return part;
}

std::string Config::model_type() const { return text("model_type"); }

std::vector<std::string> Config::model_types() const {
  std::vector<std::string> all;
  for (const auto& [path, value] : values_)
    if ((path == "model_type" || path.ends_with(".model_type")) && !value.text.empty()) all.push_back(value.text);
  return all;
}

std::string Config::architecture() const { return text("architectures"); }

std::string Config::text(std::string_view path) const {
  const auto it = values_.find(path);
  return it == values_.end() ? std::string() : it->second.text;
}

bool Config::has(std::string_view path) const {
  const auto it = values_.find(path);
  return it != values_.end() && it->second.kind != Kind::kNull;
}

bool Config::is_true(std::string_view path) const {
  const auto it = values_.find(path);
  if (it == values_.end()) return false;
  const Value& v = it->second;
  return v.kind == Kind::kFull || (v.kind == Kind::kNumber && v.number > 0) || (v.kind == Kind::kText && !v.text.empty());
}

std::optional<uint64_t> Config::number(std::string_view path) const {
  if (!has(path)) return {};
  const Value& v = values_.find(path)->second;
  constexpr uint64_t kMax = uint64_t{1} << 62;
  if (v.kind == Kind::kNumber && v.number <= kMax) return v.number;
  if (v.is_set) fail(ProblemId::map_setting, {}, std::string(path) + "=" + v.text, "a size");
  fail(ProblemId::map_config, {.path = path_}, "no number below 2^62 at " + std::string(path), "a size");
}

std::string Config::source_of(std::string_view path) const {
  const auto it = values_.find(path);
  if (it != values_.end() && it->second.is_set) return "as set";
  return std::string(path) + " of " + (path_.empty() ? std::string("config.json") : path_);
}

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
  for (const Block& b : map.blocks) {
    add(b.required);
    for (const Branch& branch : b.branches) add(branch.conditions);
  }
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
  return is_word || (name == "release" && !map.releases.empty()) ||
         std::ranges::any_of(map.variables, [&](const Variable& v) { return v.name == name; }) ||
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
