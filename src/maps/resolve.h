// Applies a map to a checkpoint: determines every target tensor, element by element, before a byte is read.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "maps/config.h"
#include "maps/index_map.h"
#include "maps/model_map.h"

namespace dcp::maps {

struct Source {
  std::string_view key;
  DType dtype = DType::float32;
  std::vector<int64_t> shape;
};

enum class Unmapped : uint8_t { kError, kKeep, kDrop };

struct ResolveOptions {
  std::vector<Setting> settings{};
  std::optional<Side> from{};  // side of the sources; nullopt: their names decide
  bool are_published = false;  // if both sides have the names, published files are the right side
  Unmapped unmapped = Unmapped::kError;
  bool is_state = false;               // an optimizer's: it may lack parameters, and `optimizer_state` is true in conditions
  bool may_mix_dtypes = false;         // within one target, which then gets the wider dtype: it will be cast anyway
  uint64_t memory_bytes = UINT64_MAX;  // for the plan of all targets
};

// Two tensors that must be equal, element by element, before anything is committed. Comparing them writes neither.
struct Tie {
  IndexMap tensor, same_as;
  Problem difference;  // reported if they are not
};

// IndexBlock::source is the position in the list of sources.
struct Resolved {
  Side from = Side::kLeft;
  std::vector<IndexMap> targets;  // by their keys
  std::vector<Tie> ties;
  std::vector<uint32_t> left_out;     // sources that the map drops: `none`, or no line matches and Unmapped::kDrop
  std::vector<std::string> kept;      // targets that no line makes: Unmapped::kKeep
  std::set<std::string> in_float32;   // targets, with a trainer's names, that are published in float32 (kept.h)
  std::vector<std::string> copies;    // targets with the same source as another target: tied weights
  std::vector<std::string> not_made;  // names of the other side that the map has no source for
  std::vector<std::string> notes;
  std::vector<Problem> problems;  // what is missing or not taken; if there are any, the map does not fit this checkpoint
};

// Throws map_* for what is wrong with sizes and names, and memory_cap. What is missing, and keys that no line takes, are listed in the result.
Resolved resolve(const ModelMap& map, Config config, const ResolveOptions& options, const std::vector<Source>& sources,
                 const Limits& limits);

}  // namespace dcp::maps
