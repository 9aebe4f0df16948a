// One number for a plan, computed from all its members, to compare the plans of different ranks.
#pragma once

#include "plan/plan.h"

namespace dcp {

// It is the same for equal plans within one build.
uint64_t digest_of(const Plan& plan);

}  // namespace dcp
