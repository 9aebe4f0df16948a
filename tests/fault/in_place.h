// Commands that change checkpoints where they lie: what must hold of each of these, whatever call fails or is the last one.
#pragma once

#include <string>
#include <vector>

#include "world.h"

namespace dcp::fault {

// `data` is tests/data. The folders that change are `before`.
std::vector<Case> in_place_cases(const std::filesystem::path& data);

// Each step is what it was, what it is to become, or without metadata; what is not ours is as it was. Returns what is not so, or "".
std::string steps_fault(const Files& before, const Files& complete, const Files& now);
// The same after another run, which leaves nothing of ours.
std::string repaired_fault(const Files& before, const Files& complete, const Files& now);

}  // namespace dcp::fault
