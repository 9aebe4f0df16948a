// The second half of writing: carries out a plan, in this process alone or on several ranks. Private to app/write.
#pragma once

#include "app/write.h"

namespace dcp {

// `result` has its plan, workers and start time. Fills in the measurements, and commits. Throws as write() does.
void carry_out(const WriteRequest& request, World& world, WriteResult& result);

}  // namespace dcp
