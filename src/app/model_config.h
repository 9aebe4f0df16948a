// The config.json of a model, and what its family says beside any map.
#pragma once

#include <string>
#include <vector>

#include "app/world.h"
#include "maps/config.h"
#include "maps/published.h"

namespace dcp {

// Throws map_config, and what reading throws.
maps::Config open_config(const std::string& path, Store& store);
bool has_config(const std::string& folder, Store& store);
// The one that is named, else config.json of the first of the folders that has one; not given if there is none.
maps::Config model_config(const std::string& named, const std::vector<std::string>& folders, Store& store);

// The model_type of which there is a map with its class: that of the whole, or of the text model of one of images. "": none.
std::string known_model_type(const maps::Config& config);

// What its family keeps in float32 when it gets this dtype.
maps::KeepsFloat32 kept_by_family(const maps::Config& config, DType as);
// By model_config(). A file that nobody named need not be a configuration.
maps::KeepsFloat32 kept_by_family(const std::string& named, const std::vector<std::string>& folders, DType as, Store& store);

}  // namespace dcp
