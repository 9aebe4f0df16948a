// `.distcp` files that are safetensors files, beside a `.metadata`.
#pragma once

#include "inputs/open.h"

namespace dcp {

// FileSystemWriter(serialization_format=SAFETENSORS) writes a `.metadata` with meaningless offsets and lengths. This recognizes such files
// by their first bytes and sets the items of their chunks by name. If the metadata has two chunks of a tensor in one file, only the later
// one exists, which is damage.
void use_safetensors_items(Store& store, OpenedCatalog& opened, const OpenOptions& options);

}  // namespace dcp
