// One number for a plan, of all its members, for ranks that have each made one.
#pragma once

#include "plan/plan.h"

namespace dcp {

// Equal for equal plans in programs of one build.
uint64_t digest_of(const Plan& plan);

}  // namespace dcp
