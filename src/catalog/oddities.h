// What a checkpoint's folder shows beyond its metadata and its items: findings for `verify`.
#pragma once

#include <vector>

#include "base/io.h"
#include "catalog/catalog.h"

namespace dcp {

// Items, other ranks' copies included, that share bytes of a file: each but the first of them is named. Damage.
std::vector<Problem> find_overlapping_items(const Catalog& catalog);

// Data files that the metadata does not name, traces of a save or of an output of dcpctl that did not finish: warnings. Metadata that is
// clearly older than a data file: a note. Looks at the folder and at times, into no file.
std::vector<Problem> inspect_folder(Io& io, const Catalog& catalog);

}  // namespace dcp
