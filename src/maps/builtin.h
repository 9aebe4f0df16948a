// The maps that come with dcpctl: the files of src/maps/builtin, FAMILY.DIALECT.map.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "maps/model_map.h"

namespace dcp::maps {

struct BuiltinMap {
  std::string_view name;  // llama.torchtitan
  std::string_view text;
};

// By name.
std::span<const BuiltinMap> builtin_maps();

// Finds a map by its name, or by a model_type of its `family` line and its dialect: mistral.torchtitan. Throws map_unknown, with those
// that may be meant.
ModelMap builtin_map(std::string_view name, const Limits& limits);

// The shortest map of which one side has names for all these keys, of the dialect of the map `like` if there is one; "": there is none.
std::string map_taking(std::span<const std::string_view> keys, std::string_view like, const Limits& limits);

// The releases of a trainer in which a model's parameters have these names, as far as maps have names of several: "torchtitan before 0.3".
std::string releases_of(std::span<const std::string_view> keys, const Limits& limits);

// The map of a model_type in a dialect, if there is one.
std::optional<ModelMap> family_map(std::string_view model_type, std::string_view dialect, const Limits& limits);

// The map that says what transformers makes of a published model of this model_type: the one with its class.
std::optional<ModelMap> published_map(std::string_view model_type, const Limits& limits);
// The class by which transformers loads a published model of this model_type, if a map says so.
std::string class_of(std::string_view model_type, const Limits& limits);

// What automatic choice finds for a checkpoint's keys.
struct Auto {
  std::vector<ModelMap> maps;         // one, or none: the keys are the published ones
  std::optional<ModelMap> published;  // the map of transformers, if all keys are on its right side
  std::optional<Problem> none;        // map_auto_none: no map has these keys on either side
};
// The release that the maps of a dialect were tested against: "transformers 5.24".
std::string_view tried_against(std::string_view dialect);

// Of the maps of a model_type, the one whose left side has all keys; `may_leave`: if there is none, most keys. If the keys are those of a
// right side, the result has no map. Throws map_auto_several, and map_config for a configuration without a model_type.
struct AutoQuery {
  std::string_view model_type;
  std::string config_path;
  std::span<const std::string_view> keys;
  bool may_leave = false;
};
Auto auto_map(const AutoQuery& query, const Limits& limits);

}  // namespace dcp::maps
