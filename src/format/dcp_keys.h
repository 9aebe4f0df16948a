// The keys of a `.metadata`, without the rest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"

namespace dcp {

// Unchecked, and a key that is there twice is given twice. nullopt: storage_data does not stand behind them, where torch writes it.
std::optional<std::vector<std::string>> read_dcp_keys(Bytes pickle, const Place& place, const Limits& limits);

}  // namespace dcp
