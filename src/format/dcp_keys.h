// The keys of a `.metadata`, without the rest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"

namespace dcp {

// Keys are not checked, and duplicates are kept. nullopt: storage_data does not follow them, as it does in torch's order.
std::optional<std::vector<std::string>> read_dcp_keys(Bytes pickle, const Place& place, const Limits& limits);

}  // namespace dcp
