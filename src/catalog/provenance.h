// Which torch wrote a checkpoint, which versions load it, and why not others.
#pragma once

#include "catalog/catalog.h"
#include "format/dcp_metadata.h"

namespace dcp {

Provenance provenance_of(const MetadataContent& content, const Catalog& catalog);

}  // namespace dcp
