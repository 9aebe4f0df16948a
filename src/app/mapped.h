// What a map makes of a checkpoint's tensors and objects.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/world.h"
#include "items/resolve.h"
#include "maps/apply_map.h"
#include "maps/run_state.h"

namespace dcp {

struct MapAnswer {
  maps::ModelMap map;
  std::optional<maps::ModelMap> to;  // applied to the result of `map`
  maps::Mapping made;                // sources are TensorIds
  std::optional<maps::RunState> run;
  std::vector<std::string> tied;      // tensors that are not written, as text: said once they are known to be equal
  std::vector<std::string> left_out;  // keys of the tensors in made.left_out
  bool stays_published = false;       // the map only leaves out what it does not publish
  bool keeps_names = false;           // what it publishes is called so already

  // The tensors and objects that it reads.
  std::vector<TensorId> sources() const;
  std::vector<BlobId> objects() const;
};

// Throws the first of the problems; warns of the others.
void check_holds(const maps::Mapping& made, World& world);
// Throws the difference of the first that are not equal, and what reading throws.
void compare_ties(const std::vector<maps::Tie>& ties, const Source& source, unsigned workers, World& world);

// A file's name has a '/' or ends in .map; other names are those of built-in maps.
bool is_map_file(const std::string& name);
// Throws map_unknown, and what reading throws.
maps::ModelMap open_map(const std::string& name, Store& store);

}  // namespace dcp
