// What a run makes of calls, allocations and changes when nothing goes wrong: where faults are put. And the count of states and faults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "world.h"

namespace dcp::fault {

struct Tally {
  uint64_t states = 0, faults = 0;
};
Tally& tally();
// A state that was looked at; `fault` says what is wrong with it, or "".
void check(const Case& c, const std::string& where, const std::string& fault);

// Which call is the k-th.
std::vector<Call> calls_of(World& world);
uint64_t allocations_of(World& world, int threads);
std::vector<Change> changes_of(World& world);

}  // namespace dcp::fault
