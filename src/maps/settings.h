// What settings and config.json mean to a map: conditions of its lines, and overrides of config.json.
#pragma once

#include <vector>

#include "maps/config.h"
#include "maps/model_map.h"

namespace dcp::maps {

// Throws map_setting for a setting that is neither a size, an axis, a choice or a name variable of the map, nor a key of config.json that
// it uses; the latter are applied to `config`.
void apply_settings(const ModelMap& map, const std::vector<Setting>& settings, Config& config);

// Whether the map uses a setting of this name.
bool asks_for(const ModelMap& map, const std::string& name);

bool holds(const std::vector<Condition>& conditions, const Config& config);

}  // namespace dcp::maps
