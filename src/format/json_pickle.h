// JSON as the pickle of what Python's json.load makes of it: also Infinity, -Infinity and NaN, integers of any size, and lone surrogates.
#pragma once

#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/problem.h"

namespace dcp {

// Throws `bad` with the position for what is no JSON, and for a key that an object has twice; over_limit for nesting.
std::string pickle_of_json(std::string_view json, const Place& place, const Limits& limits, ProblemId bad);

}  // namespace dcp
