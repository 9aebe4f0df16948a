// Makes a catalog over the files of another one.
#pragma once

#include "catalog/catalog.h"

namespace dcp {

// A catalog without keys over the same files, with the same numbers: files opened for one serve the other too.
Catalog catalog_over_files_of(const Catalog& from);

}  // namespace dcp
