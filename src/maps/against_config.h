// Whether published tensors have the sizes that config.json gives, for names that all transformers models share: from_pretrained refuses
// what does not fit.
#pragma once

#include <span>
#include <vector>

#include "base/problem.h"
#include "maps/config.h"
#include "maps/index_map.h"

namespace dcp::maps {

// 'model.embed_tokens.weight': [32, 16], expected vocab_size = 99: the first of each kind, as map_config.
std::vector<Problem> config_differences(std::span<const IndexMap> published, const Config& config);

}  // namespace dcp::maps
