// The second half of writing: a plan becomes files, by this process alone or by several ranks. Private to app/write.
#pragma once

#include "app/write.h"

namespace dcp {

// `result` has its plan, its workers and when it began. Fills in what is measured, and commits. Throws what write() throws of that.
void carry_out(const WriteRequest& request, World& world, WriteResult& result);

}  // namespace dcp
