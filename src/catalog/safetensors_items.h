// `.distcp` files that are safetensors files, beside a `.metadata`.
#pragma once

#include "catalog/open.h"

namespace dcp {

// FileSystemWriter(serialization_format=SAFETENSORS) writes a `.metadata` whose offsets and lengths mean nothing: finds such files by
// their beginning and sets the items of their chunks by name. Of two chunks of one tensor in one file only the later is there: damage.
void use_safetensors_items(Io& io, OpenedCatalog& opened, const OpenOptions& options);

}  // namespace dcp
