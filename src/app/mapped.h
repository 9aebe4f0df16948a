// Applies a map to a source: determines the result before anything is read, and compares tied tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/model_config.h"
#include "app/world.h"
#include "catalog/data_files.h"
#include "items/resolve.h"
#include "maps/apply_map.h"
#include "maps/run_state.h"
#include "select/select.h"

namespace dcp {

struct MapRequest {
  std::string map;     // a built-in map, a file name, or "auto"; "": none
  std::string config;  // the model's config.json; "": the one in the assets, or beside the source
  std::vector<maps::Setting> settings;
  maps::Unmapped unmapped = maps::Unmapped::kError;
  std::optional<maps::Side> from;
  std::string to;                         // a second map, from the published names to another trainer's; "": none
  bool is_declined = false;               // none is wanted, not even the one that a folder of assets asks for
  std::optional<std::string> model_root;  // root of the model in the output of a run; nullopt: that of the source

  bool is_given() const { return !map.empty(); }
};

struct MapQuestion {
  const Catalog& catalog;
  const Selection& selection;
  std::string assets;          // a folder that may hold config.json; ""
  std::optional<DType> dtype;  // that the whole result is cast to
  bool has_run = false;        // what a run keeps beside its model is wanted too
  uint64_t memory_bytes = UINT64_MAX;
  bool may_be_other_class = false;              // of the model: what it has no head for may be missing
  std::vector<maps::Setting> corrections = {};  // of the configuration
};

struct MapAnswer {
  maps::ModelMap map;
  std::optional<maps::ModelMap> to;  // applied to the result of `map`
  maps::Mapping made;                // sources are TensorIds
  std::optional<maps::RunState> run;
  std::vector<std::string> left_out;  // keys of the tensors in made.left_out

  // The tensors and objects that it reads.
  std::vector<TensorId> sources() const;
  std::vector<BlobId> objects() const;
};

// What the config.json of a published model has to say.
struct PublishedModel {
  std::string model_type;
  std::string architecture;   // the class by which transformers loads it; "": not known, or the names are a trainer's
  bool is_text_part = false;  // of the model of images that the request's configuration is of
};

struct AskedMap {
  std::optional<MapAnswer> answer;  // nullopt: no map is given, or `auto` finds the published names
  PublishedModel published;
  maps::KeepsFloat32 keeps;  // of the result's names
};

// Throws map_*.
AskedMap ask_map(const MapRequest& request, World& world, const MapQuestion& question);
// The map that fits a model which is written beside its config.json, where none is requested: none for names that are published, of a model_type
// that no map is for, and for quantized weights. Tensors that no map knows stay under their own names. Throws model_differs if the model is not
// the one that config.json describes.
AskedMap ask_fitting_map(const MapRequest& request, World& world, MapQuestion question);
// Throws the first problem of the answer; warns of the others.
void check_holds(const MapAnswer& answer, World& world);
// Throws map_tied_differ, and what reading throws.
void compare_ties(const MapAnswer& answer, const Source& source, unsigned workers, World& world);

// A file's name has a '/' or ends in .map; other names are those of built-in maps.
bool is_map_file(const std::string& name);
// Throws map_unknown, and what reading throws.
maps::ModelMap open_map(const std::string& name, Store& store);

}  // namespace dcp
