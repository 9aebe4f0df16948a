// Builds a Catalog from the typed content of a `.metadata`: interns text, sorts chunks, joins storage_data by (key, offsets).
#pragma once

#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "format/dcp_metadata.h"

namespace dcp {

// Storage::value of the entry that each item and each of Catalog::duplicates was built from; kNone: there is none.
struct EntryValues {
  std::vector<uint32_t> items, duplicates;
};

// `content` views the pickle's bytes; the catalog keeps no view of it. Throws if the metadata contradicts itself beyond interpretation (a
// key that is both tensor and blob, sizes that overflow); everything else becomes a finding. Fills `values` if it is not null.
OpenedCatalog build_catalog(const MetadataContent& content, const std::string& path, const std::string& folder, CheckpointKind kind = {},
                            EntryValues* values = nullptr);

// Throws memory_cap if the catalog of `content` would take more than the limit: chunks of many dims may share their sizes in the pickle,
// and each has its own in the catalog.
void check_catalog_fits(const MetadataContent& content, const std::string& path, const Limits& limits);

// Which torch wrote a checkpoint, which versions load it, and why not others.

Provenance provenance_of(const MetadataContent& content, const Catalog& catalog);

}  // namespace dcp
