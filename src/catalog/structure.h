// Faults in the structure of an opened checkpoint: files that are missing or too short, tensors with holes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/store.h"
#include "catalog/catalog.h"

namespace dcp {

// The size of a data file, or why it cannot be read. Neither: it is missing.
struct FileLook {
  std::optional<uint64_t> bytes;
  uint64_t inode = 0;
  int64_t modified_ns = 0;
  std::shared_ptr<const Problem> fault;
};
// Opens every data file once; if it is small enough to be a Git LFS pointer, its bytes are read.
std::vector<FileLook> look_at_files(Store& store, const Catalog& catalog, FollowLinks links);
// The last step of opening: takes the facts of the data files as given, or looks at the files now.
FrozenCatalog freeze(OpenedCatalog opened, std::span<const FileLook> found);
FrozenCatalog freeze(OpenedCatalog opened, Store& store, FollowLinks links);

// Findings of opening and of the structure: files that are missing or cannot be read, items that reach past the end, chunks without an item
// or outside their tensor, tensors with holes or overlaps. `inspect` and `verify` list them; writers fail for those that concern their keys
// (check_whole).
std::vector<Problem> structure_findings(const OpenedCatalog& opened);

// Whether the files reach to the end of every item of the key.
bool has_its_bytes(const Catalog& catalog, KeyRef key);

// Whether a finding says that shards may be missing without any other sign.
bool tells_unseen_shards(const Problem& finding);

// Throws if opening found damage, such as a missing file that an index names; ignores damage to keys of the catalog that are left out.
void check_opened(const OpenedCatalog& opened, const std::function<bool(std::string_view key)>& is_left_out);
// Throws the first fault of this tensor: an unknown dtype or layout, a chunk outside it, a hole, an overlap, a chunk without an item, an
// item outside its file.
void check_whole(const Catalog& catalog, const Tensor& tensor);
// Throws if a slice does not lie inside its file, whose size is known.
void check_slice(const Catalog& catalog, const Item& slice, Place place, const std::string& what);
// The same for one item: it exists and lies inside its file, whose size is known.
void check_item(const Catalog& catalog, ItemId item, std::string_view key, const std::string& what);

// What a checkpoint's folder reveals beyond its metadata and items: findings for `verify`.

// Items, including other ranks' copies, that share bytes of a file. This is damage, and a finding names all of them except the first.
// Several keys may have the same whole object: a value that keys of a torch.save file share is written once.
std::vector<Problem> find_overlapping_items(const Catalog& catalog);

// Warns of data files that the metadata does not name, and of traces of a save or a dcpctl output that did not finish; notes metadata that
// is clearly older than a data file. Checks names and times, not the content of files.
std::vector<Problem> inspect_folder(Store& store, const Catalog& catalog);

}  // namespace dcp
