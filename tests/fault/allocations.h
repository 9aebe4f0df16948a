// operator new of the whole program, which a test can make fail.
#pragma once

#include <cstdint>

namespace dcp::fault {

// In the current process: the n-th allocation from now (from 0) fails. Counted over all threads.
void fail_allocation(uint64_t n);
void count_allocations();
uint64_t allocations();

}  // namespace dcp::fault
