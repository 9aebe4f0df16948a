// Which map makes the requested form of a model, and what it makes: known before anything of the tensors is read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/mapped.h"
#include "app/requests.h"
#include "maps/published.h"
#include "select/select.h"

namespace dcp {

struct MapQuestion {
  const Catalog& catalog;
  const Selection& selection;
  std::string assets;          // a folder that may hold config.json; ""
  std::optional<DType> dtype;  // that the whole result is cast to
  bool has_run = false;        // what a run keeps beside its model is wanted too
  uint64_t memory_bytes = UINT64_MAX;
  bool may_be_other_class = false;              // of the model: what it has no head for may be missing
  bool is_filled = false;                       // what it lacks comes from another model
  bool is_whole = false;                        // else all that the published model has must be there
  std::vector<maps::Setting> corrections = {};  // of the configuration
  std::vector<std::string> quantized = {};      // sorted: names to leave out, which the model has in another form
};

// What the config.json of a published model has to say.
struct PublishedModel {
  std::string model_type;
  std::string architecture;                  // the class by which transformers loads it; "": not known, or the names are a trainer's
  bool is_text_part = false;                 // of the model of images that the request's configuration is of
  std::vector<maps::Setting> settings = {};  // of the request, for members that the configuration has
};

struct AskedMap {
  std::optional<MapAnswer> answer;  // nullopt: no map is given, or `auto` finds the published names
  PublishedModel published;
  maps::KeepsFloat32 keeps;  // of the result's names
};

// Throws map_*.
AskedMap ask_map(const MapRequest& request, World& world, const MapQuestion& question);

}  // namespace dcp
