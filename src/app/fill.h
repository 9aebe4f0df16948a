// Takes what a model lacks from another model: frozen towers, layers for several tokens at once, which a run does not save.
#pragma once

#include <string>
#include <vector>

#include "app/stages.h"
#include "app/world.h"

namespace dcp {

struct Filled {
  std::string model;              // its path; "": none was asked for
  std::vector<std::string> keys;  // that were taken
  uint64_t bytes = 0;
};

// What is to be filled, and with what.
struct FillRequest {
  std::string model;
  MapRequest map;      // of the model that is filled, for its config.json
  std::string assets;  // a folder that may hold it, also the other model's
  std::string output;  // which must not replace the other model
};

// Adds the tensors of the other model that the selection, under its final names, has none of, as they are stored there. In one process. The config.json
// of the request, its assets or the other model decides what a known family ties and must have. Throws expect_differs for a tensor that the other
// model has in another shape or not at all, map_tensor_missing for what both lack, and what opening and resolving throw.
Filled fill(const FillRequest& request, Ready& ready, Selected& selected, World& world);

}  // namespace dcp
