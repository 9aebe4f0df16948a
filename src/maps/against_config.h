// Whether published tensors have the shapes that config.json gives: from_pretrained refuses what does not fit.
#pragma once

#include <vector>

#include "maps/config.h"
#include "maps/resolve.h"

namespace dcp::maps {

// By the right side of the transformers map of config.json's model_type, which says the shapes; for other families by sizes and names that
// all transformers models share. Throws map_size_differs, map_size_remainder and map_config for the first that differs.
void check_against(const Config& config, const std::vector<Source>& published);

}  // namespace dcp::maps
