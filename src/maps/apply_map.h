// Applies a map to a checkpoint: determines every target tensor, element by element, before a byte is read.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "maps/index_map.h"
#include "maps/model_map.h"

namespace dcp {
struct Selection;
struct SelectOptions;
}  // namespace dcp

namespace dcp::maps {

class Config;
struct Parameter;

struct MapSource {
  std::string_view key;
  DType dtype = DType::float32;
  std::vector<int64_t> shape;
};

enum class Unmapped : uint8_t { kError, kKeep, kDrop };

struct MapOptions {
  std::vector<Setting> settings{};
  std::optional<Side> from{};  // side of the sources; nullopt: their names decide
  bool are_published = false;  // if both sides have the names, published files are the right side
  Unmapped unmapped = Unmapped::kError;
  bool is_state = false;               // an optimizer's: it may lack parameters, and `optimizer_state` is true in conditions
  bool may_be_filled = false;          // what the names lack as a whole comes from elsewhere
  bool lists_sizes = false;            // sizes that differ are problems of the result
  bool may_mix_dtypes = false;         // within one target, which then gets the wider dtype: it will be cast anyway
  uint64_t memory_bytes = UINT64_MAX;  // for the plan of all targets
};

// Two tensors that must be equal, element by element, before anything is committed. Comparing them writes neither.
struct Tie {
  IndexMap tensor, same_as;
  Problem difference;  // reported if they are not
};

// IndexBlock::source is the position in the list of sources.
struct Mapping {
  Side from = Side::kLeft;
  std::vector<IndexMap> targets;  // by their keys
  std::vector<Tie> ties;
  std::vector<uint32_t> left_out;     // sources that the map drops: `none`, or no line matches and Unmapped::kDrop
  std::vector<std::string> kept;      // targets that no line makes: Unmapped::kKeep
  std::set<std::string> in_float32;   // targets, with a trainer's names, that are published in float32 (published.h)
  std::vector<std::string> copies;    // targets with the same source as another target: tied weights
  std::vector<std::string> not_made;  // names of the other side that the map has no source for
  std::vector<std::string> notes;
  std::vector<Problem> problems;  // what is missing or not taken; if there are any, the map does not fit this checkpoint
};

// Throws map_* for what is wrong with sizes and names, and memory_cap. What is missing, and keys that no line takes, are listed in the result.
Mapping apply_map(const ModelMap& map, Config config, const MapOptions& options, const std::vector<MapSource>& sources,
                  const Limits& limits);

// Whether a tensor's shape is not what sizes say.
constexpr bool is_of_sizes(const Problem& p) { return p.id == ProblemId::map_size_differs || p.id == ProblemId::map_size_remainder; }

// Applies a map to the selected keys of a checkpoint, under their final names.

// The selection that a map sees: names without an added root, and the source's dtypes.
SelectOptions before_map(SelectOptions select);

// What a map takes: parameters of a checkpoint, or what another map has made.
std::vector<MapSource> sources_of(const Catalog& catalog, std::span<const Parameter> parameters);
std::vector<MapSource> as_sources(const std::vector<IndexMap>& made);

// As apply_map(), with TensorIds of the catalog for sources. Ignores byte items: a map sees only tensors.
Mapping apply_to_selected(const ModelMap& map, Config config, const MapOptions& options, const Catalog& catalog,
                          std::span<const Parameter> parameters);

// The selection of a map's result: its names under the requested root and in the requested dtypes. Keys left out before stay reported, and
// so do objects other than `used`, which are sorted.
Selection select_mapped(const Catalog& derived, const SelectOptions& options, Selection before, std::span<const BlobId> used);

// Tensors whose values are split into numbers and scales. A map moves elements, so it must not see them.

// Throws map_quantized for a tensor that lies beside its scales, under the names that published models use.
void refuse_quantized(std::span<const std::string_view> keys);

}  // namespace dcp::maps
