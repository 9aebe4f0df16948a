// A checkpoint of several files, one of which cannot be read.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>

#include "inputs/open.h"

namespace dcp {

// Calls `open` with the names of files that it is to treat as if they were not there. Without OpenOptions::show_rest there are none; with it, a
// file at which opening fails is added, and becomes damage of what the others are. `count`: files that there are.
using OpenWithout = std::function<OpenedCatalog(const std::set<std::string>& without)>;
OpenedCatalog open_rest(const std::string& folder, size_t count, const OpenOptions& options, const OpenWithout& open);

}  // namespace dcp
