// The shapes that config.json gives to a model's tensors.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "maps/config.h"
#include "maps/keys.h"
#include "maps/sizes.h"

namespace dcp::maps {

// By the names and sizes of the transformers map of its model_type.
class ConfigShapes {
 public:
  explicit ConfigShapes(Config config);
  ConfigShapes(const ConfigShapes&) = delete;
  ConfigShapes& operator=(const ConfigShapes&) = delete;

  // nullopt: the map has no such name, or another size than config.json has is needed.
  std::optional<std::vector<int64_t>> of(std::string_view key) const;

 private:
  std::optional<std::vector<int64_t>> of(const Taker& taker, Side side) const;

  const Config config_;
  const std::optional<ModelMap> map_;
  std::optional<Sizes> sizes_;
  std::optional<Takers> left_, right_;
};

}  // namespace dcp::maps
