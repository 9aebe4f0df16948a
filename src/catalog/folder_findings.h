// What a checkpoint's folder reveals beyond its metadata and items: findings for `verify`.
#pragma once

#include <vector>

#include "base/store.h"
#include "catalog/catalog.h"

namespace dcp {

// Items, including other ranks' copies, that share bytes of a file. This is damage, and a finding names all of them except the first.
// Several keys may have the same whole object: a value that keys of a torch.save file share is written once.
std::vector<Problem> find_overlapping_items(const Catalog& catalog);

// Warns of data files that the metadata does not name, and of traces of a save or a dcpctl output that did not finish; notes metadata that
// is clearly older than a data file. Checks names and times, not the content of files.
std::vector<Problem> inspect_folder(Store& store, const Catalog& catalog);

}  // namespace dcp
