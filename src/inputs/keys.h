// The keys of a checkpoint of any kind.
#pragma once

#include <string>
#include <vector>

#include "inputs/open.h"

namespace dcp {

// Used for suggestions, so nothing else needs to be checked.
std::vector<std::string> read_keys(Store& store, const std::string& path, const OpenOptions& options);

}  // namespace dcp
