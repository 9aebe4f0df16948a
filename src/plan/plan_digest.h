// One number for a plan, computed from all its members: for comparing the plans that ranks have made.
#pragma once

#include "plan/plan.h"

namespace dcp {

// Equal for equal plans within one build.
uint64_t digest_of(const Plan& plan);

}  // namespace dcp
