// What transformers makes of a published model: the shapes that its config.json gives, and what it keeps in float32.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "format/dtype.h"

namespace dcp::maps {

class Config;
struct MapSource;
struct ModelMap;

// By the right side of the transformers map of config.json's model_type, which says the shapes; for other families by sizes and names that
// all transformers models share: map_size_differs, map_size_remainder and map_config for what differs.
std::vector<Problem> differences(const Config& config, const std::vector<MapSource>& published);

// Tensors that the family has only where config.json says so, which it does not: map_unused, one for each of its keys that say it. The weights
// of a quantized model have other names.
std::vector<Problem> unused(const Config& config, std::span<const std::string_view> published);

// Tensors that transformers loads by the class of config.json, and that are not among these, which are all of a model: model_differs, one for all.
// None where it loads another class, where most names are no published ones, and beside an adapter.
std::optional<Problem> lacking(const Config& config, const std::vector<MapSource>& published);

// What transformers needs of these, which a map has made for a model of its class: map_tensor_missing, one for each tensor that is not there. None
// where most names are no published ones.
std::vector<Problem> unmade(const Config& config, const std::vector<MapSource>& published);

// The shapes that config.json gives to a model's tensors.

// By the names and sizes of the transformers map of its model_type.
class ConfigShapes {
 public:
  explicit ConfigShapes(Config config);
  ~ConfigShapes();

  // nullopt: the map has no such name, or another size than config.json has is needed.
  std::optional<std::vector<int64_t>> of(std::string_view key) const;

 private:
  struct Names;
  std::unique_ptr<const Names> names_;
};

// Tensors that a model's family keeps in float32: routing, for one, depends on bits that bfloat16 has not.

// Whether a tensor of this name, published or in memory, below any root, stays in float32 when the model gets a narrower dtype. Empty: none does.
using KeepsFloat32 = std::function<bool(std::string_view)>;

// What the `keep` lines of a map say for this dtype.
KeepsFloat32 kept_in_float32(const ModelMap& map, DType as);

// What transformers says of a model of these types, the whole's and those of the models in it: by its lists, or of a type by the map that has its
// class.
KeepsFloat32 kept_of_types(const std::vector<std::string>& model_types, DType as);

// And these names, below any root.
KeepsFloat32 kept_too(KeepsFloat32 keeps, std::set<std::string> names);

}  // namespace dcp::maps
