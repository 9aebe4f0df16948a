// Opens the checkpoint at a path: finds its kind, and reads its catalog.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/store.h"
#include "catalog/catalog.h"

namespace dcp {

inline constexpr std::string_view kNoneReplicated = "none";

// Shapes that tensors should have, by key.
using WholeShapes = std::map<std::string, std::vector<int64_t>, std::less<>>;

struct OpenOptions {
  Limits limits;
  FollowLinks links = FollowLinks::kCacheOnly;
  std::optional<uint32_t> prefer_rank;  // whose copy is used if several ranks wrote an item
  // Plain tensors in files of ranks are parts and are joined along this dim, except those that each rank has whole: tensors without
  // dims, those that match a glob in `replicated` (if that has globs, or "none", all others are parts), and those whose shape shows it.
  std::optional<uint32_t> shards_on_dim{};
  std::vector<std::string> replicated{};
  WholeShapes whole_shapes{};
};

// Opens a checkpoint of any kind (catalog/kinds.def), given as its folder or a file. A file's kind is decided by its content; names only
// decide where the content cannot. Reads metadata and headers, and looks at the data files. Throws not_checkpoint, which says what is there
// instead.
FrozenCatalog open_checkpoint(Store& store, const std::string& path, const OpenOptions& options);
// The same without looking at the data files.
OpenedCatalog read_checkpoint(Store& store, const std::string& path, const OpenOptions& options);

// Whether a file of this name makes its folder a checkpoint: metadata, an index, a safetensors file.
bool describes_checkpoint(std::string_view name);
// Whether the name of a file suggests that it is a checkpoint, or stands for its folder.
bool is_checkpoint_name(std::string_view name);

// The part of a file describing a checkpoint that opening reads.
struct Description {
  std::vector<std::byte> bytes;  // from its beginning
  uint64_t size = 0;             // of the file
  bool operator==(const Description&) const = default;
};
// Whether such a file can be described without its data.
bool has_description(std::string_view name);
Description read_description(Store& store, const std::string& path, const Limits& limits);

// The keys of a checkpoint of any kind.

// Used for suggestions, so nothing else needs to be checked.
std::vector<std::string> read_keys(Store& store, const std::string& path, const OpenOptions& options);

}  // namespace dcp
