// Whether published tensors have the sizes that config.json gives, for names that all transformers models share: from_pretrained refuses
// what does not fit.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "maps/config.h"
#include "maps/index_map.h"

namespace dcp::maps {

// "model.embed_tokens.weight is [32, 16], where vocab_size is 99 in base/config.json": the first of each kind.
std::vector<std::string> config_differences(std::span<const IndexMap> published, const Config& config);

}  // namespace dcp::maps
