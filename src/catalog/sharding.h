// How a tensor is sharded, in words, from its chunk boxes alone: "whole", "Shard(0) x8", "Shard(0) x8 uneven", "grid 2x4", "irregular x7".
// Empty chunks count as shards: FSDP2 leaves them if a parameter has fewer rows than there are ranks.
#pragma once

#include <string>

#include "catalog/catalog.h"

namespace dcp {

std::string sharding_words(const Catalog& catalog, const Tensor& tensor);

// The number of ranks that the chunks suggest: the maximum number of chunks of any tensor; 0 if no tensor is sharded.
uint32_t world_size_shown(const Catalog& catalog);

}  // namespace dcp
