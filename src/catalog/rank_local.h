// Rank-local checkpoints (torch >= 2.9, use_collectives=False): every rank wrote a `__R.metadata` of its own chunks and of all byte items.
// Merged they are one checkpoint. Source: torch/distributed/checkpoint/filesystem.py, FileSystemReader.read_metadata.
#pragma once

#include <span>

#include "catalog/catalog.h"
#include "catalog/data_files.h"
#include "catalog/resolve.h"
#include "format/dcp_metadata.h"

namespace dcp {

// The union of the ranks' contents, which must outlive it; of equal chunks the first rank's is kept. Its storage names every rank's
// items, so an item that several ranks wrote is there more than once: build_catalog keeps the first and lists the others as duplicates.
// Throws ranks_disagree where two ranks describe one key differently.
MetadataContent merge_rank_local(std::span<const MetadataContent> ranks, const std::string& path);

// Every other copy of a selected item says the same as the one that is used: equal CRCs of equal records, else equal bytes. Throws
// duplicates_differ naming both files. `resolved` holds the items that are used.
void prove_duplicates(DataFiles& files, const Catalog& catalog, const Resolved& resolved, const ResolveOptions& options);
// The same as findings, all of them. Values that differ are no damage, as rank-local state may: a warning.
std::vector<Problem> find_differing_duplicates(DataFiles& files, const Catalog& catalog, const Resolved& resolved, const ResolveOptions& options);

}  // namespace dcp
