// The keys of a checkpoint of any kind.
#pragma once

#include <string>
#include <vector>

#include "inputs/open.h"

namespace dcp {

// Possibly without checking anything else: for suggestions.
std::vector<std::string> read_keys(Store& store, const std::string& path, const OpenOptions& options);

}  // namespace dcp
