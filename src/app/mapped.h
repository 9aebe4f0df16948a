// What a map makes of a source: found out before anything is read, and compared where tensors are tied.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/world.h"
#include "catalog/data_files.h"
#include "catalog/resolve.h"
#include "catalog/select.h"
#include "maps/resolve.h"

namespace dcp {

struct MapRequest {
  std::string map;     // built in, the name of a file, or "auto"; "": none
  std::string config;  // the model's config.json; "": that of the assets, or beside the source
  std::vector<maps::Setting> settings;
  maps::Unmapped unmapped = maps::Unmapped::kError;
  std::optional<maps::Side> from;

  bool is_given() const { return !map.empty(); }
};

struct MapQuestion {
  const Catalog& catalog;
  const Selection& selection;
  std::string assets;           // a folder that may hold config.json; ""
  bool may_mix_dtypes = false;  // all that is made is cast
};

struct MapAnswer {
  maps::ModelMap map;
  maps::Resolved made;  // sources are TensorIds

  // The tensors that it reads.
  std::vector<TensorId> sources() const;
};

// Nothing: no map is given, or `auto` finds the published names. Throws map_*.
std::optional<MapAnswer> ask_map(const MapRequest& request, World& world, const MapQuestion& question);
// Throws the first problem of the answer; warns of the others.
void check_holds(const MapAnswer& answer, World& world);
// Throws map_tied_differ, and what reading can throw.
void compare_ties(const MapAnswer& answer, const Source& source, unsigned workers, World& world);

// A file's name has a '/' or ends in .map; other names are those of built-in maps.
bool is_map_file(const std::string& name);
// Throws map_unknown, and what reading one can throw.
maps::ModelMap open_map(const std::string& name, Io& io);
maps::Config open_config(const std::string& path, Io& io);

}  // namespace dcp
