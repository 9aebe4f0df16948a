// open(path): which kind of checkpoint is there, and its catalog.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/limits.h"
#include "base/store.h"
#include "catalog/catalog.h"

namespace dcp {

struct OpenOptions {
  Limits limits;
  FollowLinks links = FollowLinks::kCacheOnly;
  std::optional<uint32_t> prefer_rank;  // rank-local: whose copy is used where several ranks wrote an item
};

// A DCP folder or its `.metadata`, a folder of rank-local metadata, a safetensors file, a folder of safetensors files or its index. A
// file's kind is decided by its content; names only decide where the content cannot. Reads metadata and headers only. Fails with
// not_checkpoint, naming what is there instead.
OpenedCatalog open_checkpoint(Store& store, const std::string& path, const OpenOptions& options);

// Whether open_checkpoint reads a file of this name in a folder: metadata, an index, or a safetensors file (its header).
bool describes_checkpoint(std::string_view name);

// Finds the size of every data file (one open each; if it is small enough to be a Git LFS pointer, also its bytes), or why it cannot be
// read. The last step of opening.
void look_at_files(Store& store, Catalog& catalog, FollowLinks links);
// Findings of opening and of the structure: files that are missing or cannot be read, items that reach past the end, chunks without an item
// or outside their tensor, tensors with holes or overlaps. `inspect` and `verify` list them; writers stop at those that concern their keys
// (check_whole).
std::vector<Problem> structure_findings(const OpenedCatalog& opened);

// Throws damage found while opening, such as a missing file that an index names; ignores damage to keys of the catalog that are left out.
void check_opened(const OpenedCatalog& opened, const std::function<bool(std::string_view key)>& is_left_out);
// Throws the first fault of this tensor: an unknown dtype or layout, a chunk outside it, a hole, an overlap, a chunk without an item, an
// item outside its file.
void check_whole(const Catalog& catalog, const Tensor& tensor);
// Throws if a slice does not lie inside its file, whose size is known.
void check_slice(const Catalog& catalog, const Item& slice, Place place, const std::string& what);
// The same for one item: it exists and lies inside its file, whose size is known.
void check_item(const Catalog& catalog, ItemId item, std::string_view key, const std::string& what);

}  // namespace dcp
