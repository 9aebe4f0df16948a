// Rank-local checkpoints (torch >= 2.9, use_collectives=False): every rank wrote a `__R.metadata` of its own chunks and of all byte items.
// Merged, these are one checkpoint. Source: torch/distributed/checkpoint/filesystem.py, FileSystemReader.read_metadata.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "format/dcp_metadata.h"

namespace dcp {

// The union of the ranks' contents, which must outlive it; of equal chunks it keeps the first rank's. Its storage lists every rank's items,
// so an item that several ranks wrote occurs more than once: build_catalog keeps the first and lists the others as duplicates. If two ranks
// describe a key differently, the first counts, and ranks_disagree is added to `findings` as damage.
MetadataContent merge_rank_local(std::span<const MetadataContent> ranks, const std::string& path, std::vector<Problem>& findings);

}  // namespace dcp
