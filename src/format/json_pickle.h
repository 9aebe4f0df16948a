// JSON as the pickle of what Python's json.load makes of it.
#pragma once

#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/problem.h"

namespace dcp {

// Throws `bad` for what is no JSON, a key that an object has twice, and numbers that Python has and neither a double nor 64 bits hold;
// over_limit for nesting.
std::string pickle_of_json(std::string_view json, const Place& place, const Limits& limits, ProblemId bad);

}  // namespace dcp
