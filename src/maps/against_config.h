// Whether published tensors have the sizes that config.json says, where every model of transformers has the same names for both: what does not
// fit, from_pretrained refuses.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "maps/config.h"
#include "maps/index_map.h"

namespace dcp::maps {

// "model.embed_tokens.weight is [32, 16], where vocab_size is 99 in base/config.json": of each kind the first.
std::vector<std::string> config_differences(std::span<const IndexMap> published, const Config& config);

}  // namespace dcp::maps
