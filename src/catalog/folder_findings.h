// What a checkpoint's folder reveals beyond its metadata and items: findings for `verify`.
#pragma once

#include <vector>

#include "base/store.h"
#include "catalog/catalog.h"

namespace dcp {

// Items, other ranks' copies included, that share bytes of a file: names all but the first of them. Damage. Several keys of one whole object are
// none: what a torch.save file's keys share is written once.
std::vector<Problem> find_overlapping_items(const Catalog& catalog);

// Warns of data files that the metadata does not name, and of traces of a save or a dcpctl output that did not finish; notes metadata that
// is clearly older than a data file. Looks at names and times, not into files.
std::vector<Problem> inspect_folder(Store& store, const Catalog& catalog);

}  // namespace dcp
