// What measured lines say: pure functions of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "staging/link.h"
#include "staging/measure.h"

namespace dcp {

// The best rate of any repeat of any line, in bytes a second: what this machine has shown that it can.
double best_rate(const std::vector<StagingLine>& lines);

// The line to use for workload `w`: of those whose median save blocks at most a twentieth longer than the shortest, the one with the least
// memory, then the simplest. nullptr: none was measured.
const StagingLine* choose(const std::vector<StagingLine>& lines, size_t w);

// What a save costs a trainer, in one sentence: method, stall, memory, and what ordinary memory would cost.
std::string verdict(const std::vector<StagingLine>& lines, size_t w, const std::string& workload);

// Of a curve of single buffers: from which size on copies reach nine tenths of the best rate of pinned memory, and what a copy costs at
// least. "" where there are less than three sizes.
std::string curve_note(const std::vector<StagingLine>& lines);

// Said when the best pinned rate lies under what the link usually gives; nullopt: it does not, or nothing is known of the link.
std::optional<std::string> slow_link(const std::vector<StagingLine>& lines, const LinkFacts& link);

// Of several devices at once: bytes a second of all together, by their slowest repeat; and of the slowest alone.
struct Combined {
  double sum = 0, slowest = 0;
  uint32_t slowest_device = 0;
};
Combined combined(const std::vector<StagingLine>& lines_of_one_case);

}  // namespace dcp
