// A map meets a checkpoint: every tensor that comes out, element by element, before a byte is read.
#pragma once

#include <cstdint>
#include <optional>
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
  std::optional<Side> from{};  // of the sources; else their names decide
  bool are_published = false;  // if both sides have the names: published files are the right side
  Unmapped unmapped = Unmapped::kError;
  bool is_state = false;        // of an optimizer: parameters that it has none of are no loss, and `optimizer_state` is true in conditions
  bool may_mix_dtypes = false;  // in one target, which then has the wider one: it is cast all the same
};

// Must be the same, element by element, before anything is committed. Neither is written for that.
struct Tie {
  IndexMap tensor, same_as;
  Problem difference;  // what is said if they are not
};

// IndexBlock::source is the place in the list of sources.
struct Resolved {
  Side from = Side::kLeft;
  std::vector<IndexMap> targets;  // by their keys
  std::vector<Tie> ties;
  std::vector<uint32_t> left_out;     // sources that the map drops: `none`, --unmapped drop
  std::vector<std::string> copies;    // targets that are made of what another is made of: tied weights
  std::vector<std::string> not_made;  // names of the other side that the map has no source for
  std::vector<std::string> notes;
  std::vector<Problem> problems;  // what is missing or not taken; with any of them the map does not hold for this checkpoint
};

// Throws map_* for what is wrong with sizes and names. What is missing, and keys that no line takes, are listed in the result.
Resolved resolve(const ModelMap& map, Config config, const ResolveOptions& options, const std::vector<Source>& sources,
                 const Limits& limits);

}  // namespace dcp::maps
