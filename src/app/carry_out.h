// The second half of writing: a plan becomes files, by this process alone or by several ranks. Private to app/write.
#pragma once

#include "app/write.h"

namespace dcp {

struct WriteJob {
  const WriteRequest& request;
  World& world;
  WriteResult& result;  // with a plan
  unsigned workers = 1;
  uint64_t begin_ns = 0;
  const Plan& plan() const { return *result.plan; }
};

// Fills what is measured into the result, and commits. Throws what write() throws of that.
void carry_out(const WriteJob& job);

}  // namespace dcp
