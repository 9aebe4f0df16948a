// From the typed content of a `.metadata` to a Catalog: interning, sorting of chunks, joining storage_data by (key, offsets).
#pragma once

#include <string>

#include "catalog/catalog.h"
#include "format/dcp_metadata.h"

namespace dcp {

// `content` views the pickle's bytes; nothing of it is kept. Fails where the metadata contradicts itself in a way that leaves no
// meaning (a key that is tensor and blob, sizes that overflow); everything else becomes a finding.
OpenedCatalog build_catalog(const MetadataContent& content, const std::string& path, const std::string& folder,
                            CheckpointKind kind = CheckpointKind::kDcp);

// Throws memory_cap if the catalog of `content` would take more than the limit: chunks of many dims may share their sizes in the pickle,
// and each has its own in the catalog.
void check_catalog_fits(const MetadataContent& content, const std::string& path, const Limits& limits);

}  // namespace dcp
