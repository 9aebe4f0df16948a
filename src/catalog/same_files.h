// Catalogs that are made of another one.
#pragma once

#include "catalog/catalog.h"

namespace dcp {

// Without keys, over the same files: they have the same numbers, so those that are open for the one serve the other, too.
Catalog catalog_over_files_of(const Catalog& from);

}  // namespace dcp
