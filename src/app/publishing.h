// A model beside its configuration and tokenizer, as it is published.
#pragma once

#include <optional>
#include <string>

#include "app/world.h"
#include "format/dtype.h"

namespace dcp {

struct Plan;
struct PublishedModel;

// Throws the last of what is missing, the source, the assets or room for the output, and warns of the others. Who met one refusal after another
// would start anew each time.
struct Publishing {
  const std::string& source;
  const std::string& assets;
  const std::string& output;
  Replace replace{};
};
void check_publishable(const Publishing& paths, World& world);

struct AssetsRequest {
  const std::string& folder;
  std::optional<DType> dtype;
  const PublishedModel& published;
};
// Adds the assets (plan/assets.h) of a folder to the plan of a folder. Throws no_such_path, no_assets, over_limit, map_config.
void copy_assets(const AssetsRequest& request, World& world, Plan& plan);
// Says which assets of the source's folder, which has a config.json, are not written.
void note_assets(const std::string& folder, World& world);

}  // namespace dcp
