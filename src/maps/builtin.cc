#include "maps/builtin.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "maps/builtin_texts.h"
#include "maps/names.h"
#include "maps/parse.h"

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

// Whether a text that is not read yet may name the key on the left of a line: what follows its last number stands there as the end of a name,
// behind the same digit or an index, where names have no variables.
bool may_name(std::string_view text, std::string_view key) {
  if (text.find('$') != text.npos || text.find("{*}") != text.npos) return true;
  const auto is_in_name = [](char c, char brace) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == brace;
  };
  const size_t number = key.find_last_of("0123456789") + 1;  // 0: none
  const std::string_view rest = key.substr(number);
  for (size_t at = text.find(rest); at != text.npos; at = text.find(rest, at + 1)) {
    const std::string_view before = text.substr(0, at), line = before.substr(before.rfind('\n') + 1);
    const char last = line.empty() ? ' ' : line.back(), next = at + rest.size() < text.size() ? text[at + rest.size()] : ' ';
    const bool begins = number > 0 ? last == '}' || last == key[number - 1] : !is_in_name(last, '}');
    if (begins && !is_in_name(next, '{') && line.find('=') == line.npos) return true;
  }
  return false;
}

// The maps of the model that a name begins with, else the name that is nearest, else what a name looks like.
std::string names_near(std::string_view name) {
  std::string all;
  Closest near(name);
  for (const BuiltinMap& m : builtin_maps()) {
    near.offer(m.name);
    if (has_family(m.text, name.substr(0, name.find('.')))) all += (all.empty() ? "one of " : ", ") + std::string(m.name);
  }
  if (all.empty()) all = near.found();
  return all.empty() ? "MODEL.torchtitan, MODEL.megatron or MODEL.transformers" : all;
}

Problem none_fits(const AutoQuery& query, const std::string& tried) {
  if (tried.empty())
    return make_problem(ProblemId::map_auto_none, {}, "model_type " + std::string(query.model_type) + ", which has no map");
  Problem p = make_problem(ProblemId::map_auto_none, {}, tried);
  for (const std::string_view key : query.keys) {
    if (adapter_of(key).empty()) continue;
    p.hint = shortened(key) + " is of " + std::string(adapter_of(key)) + ", " + std::string(kAdapterHint);
    break;
  }
  return p;
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
  fail(ProblemId::map_unknown, {}, std::string(name), names_near(name));
}

std::string map_taking(std::span<const std::string_view> keys, std::string_view like, const Limits& limits) {
  std::string best;
  std::pair<bool, size_t> least{true, SIZE_MAX};  // of another dialect, and lines
  for (const BuiltinMap& m : builtin_maps()) {
    const ModelMap map = read_map(m.text, std::string(m.name), limits);
    const std::pair<bool, size_t> is{dialect_of(m.name) != dialect_of(like), map.lines.size()};
    const auto takes_all = [&](Side side) { return fit_of(map, side, keys).taken == keys.size(); };
    if (is < least && (takes_all(Side::kLeft) || takes_all(Side::kRight))) best = map.name, least = is;
  }
  return best;
}

std::string releases_of(std::span<const std::string_view> keys, const Limits& limits) {
  for (const BuiltinMap& m : builtin_maps()) {
    const bool may_tell =
        m.text.find("\nrelease ") != m.text.npos && !keys.empty() && may_name(m.text, keys.front()) && may_name(m.text, keys.back());
    if (!may_tell) continue;                                          // to read a map takes a tenth of a small checkpoint's time
    const ModelMap map = parse(m.text, std::string(m.name), limits);  // names alone: what the lines move needs no proof here
    const auto place = place_of_release(map, keys);
    if (place)
      return std::string(dialect_of(m.name)) + (*place == 0 ? " " + map.releases[0] + " or later" : " before " + map.releases[*place - 1]);
  }
  return {};
}

std::optional<ModelMap> family_map(std::string_view model_type, std::string_view dialect, const Limits& limits) {
  if (!model_type.empty())
    for (const BuiltinMap& m : builtin_maps())
      if (dialect_of(m.name) == dialect && has_family(m.text, model_type)) return read_map(m.text, std::string(m.name), limits);
  return {};
}

std::optional<ModelMap> published_map(std::string_view model_type, const Limits& limits) {
  for (const BuiltinMap& m : builtin_maps()) {
    if (model_type.empty() || !has_family(m.text, model_type)) continue;
    ModelMap map = read_map(m.text, std::string(m.name), limits);
    if (!map.classes.empty()) return map;
  }
  return {};
}

std::string class_of(std::string_view model_type, const Limits& limits) {
  const auto map = published_map(model_type, limits);
  return map ? class_of(*map, model_type) : "";
}

Auto auto_map(const AutoQuery& query, const Limits& limits) {
  if (query.model_type.empty())
    fail(ProblemId::map_config, {.path = query.config_path}, "no model_type", "a model_type, by which to choose a map");
  Auto found;
  std::string tried;
  uint64_t best = 0, best_right = 0;  // keys
  for (const BuiltinMap& m : builtin_maps()) {
    if (!has_family(m.text, query.model_type)) continue;
    ModelMap map = read_map(m.text, std::string(m.name), limits);
    const Fit left = fit_of(map, Side::kLeft, query.keys), right = fit_of(map, Side::kRight, query.keys);
    tried += (tried.empty() ? "" : "; ") + std::string(m.name) + " does not match " + shortened(left.untaken);
    const auto fits = [&](const Fit& fit) { return fit.taken == query.keys.size() || (query.may_leave && fit.taken > 0); };
    const bool is_its = dialect_of(m.name) == "transformers" || (query.may_leave && !map.classes.empty());
    if (fits(right) && is_its) found.published = map;
    if (fits(right)) best_right = std::max(best_right, right.taken);
    if (!fits(left) || left.taken < best) continue;
    if (left.taken > best) found.maps.clear();
    best = left.taken;
    found.maps.push_back(std::move(map));
  }
  if (best < best_right) found.maps.clear();
  if (found.maps.size() > 1) fail(ProblemId::map_auto_several, {}, joined(found.maps, ", ", &ModelMap::name));
  if (found.maps.empty() && best_right == 0) found.none = none_fits(query, tried);
  return found;
}

std::string_view tried_against(std::string_view dialect) {
  if (dialect == "torchtitan") return "torchtitan 0.3";
  if (dialect == "transformers") return "transformers 5.24";
  return "Megatron-Core 0.16";
}

}  // namespace dcp::maps
