// Builds a Catalog from the typed content of a `.metadata`: interns text, sorts chunks, joins storage_data by (key, offsets).
#pragma once

#include <string>

#include "catalog/catalog.h"
#include "format/dcp_metadata.h"

namespace dcp {

// `content` views the pickle's bytes; the catalog keeps no view of it. Throws if the metadata contradicts itself beyond interpretation (a
// key that is both tensor and blob, sizes that overflow); everything else becomes a finding.
OpenedCatalog build_catalog(const MetadataContent& content, const std::string& path, const std::string& folder, CheckpointKind kind = {});

// Throws memory_cap if the catalog of `content` would take more than the limit: chunks of many dims may share their sizes in the pickle,
// and each has its own in the catalog.
void check_catalog_fits(const MetadataContent& content, const std::string& path, const Limits& limits);

}  // namespace dcp
