// Conclusions from measured lines and from what the PCIe link between a GPU and the host can do: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "staging/measure.h"

namespace dcp {

// The PCIe link between a GPU and the host: its theoretical and its usual rate.

// 0: not known.
struct LinkFacts {
  uint32_t generation = 0, width = 0;          // while a copy runs
  uint32_t generation_max = 0, width_max = 0;  // of card and slot together
};

// Bytes a second in one direction after line coding, before packet headers; 0: not known.
double link_limit(const LinkFacts& link);

// The rate that pinned copies usually reach at least, in bytes per second: 26 GB/s on Gen4 x16, 55 GB/s on Gen5 x16. nullopt: unknown.
std::optional<double> usual_rate(const LinkFacts& link);

// "PCIe Gen5 x16"; "" if not known.
std::string link_name(const LinkFacts& link);

// Likely causes of a rate below the usual one, likeliest first.
std::vector<std::string> slow_link_causes(const LinkFacts& link, bool several_nodes, int device_node);

// The best rate of any repeat of any line, in bytes a second: what this machine can demonstrably do.
double best_rate(const std::vector<StagingLine>& lines);

// The line to use for workload `w`: of those whose median save blocks at most 5 % longer than the shortest, the one with the least memory,
// then the simplest. nullptr: none was measured.
const StagingLine* choose(const std::vector<StagingLine>& lines, size_t w);

// What a save costs a trainer, in one sentence: method, stall, memory, and what ordinary memory would cost.
std::string verdict(const std::vector<StagingLine>& lines, size_t w, const std::string& workload);

// For a curve of single buffers: the size from which copies reach nine tenths of the best rate of pinned memory, and the minimum cost of a
// copy. "" for fewer than three sizes.
std::string curve_note(const std::vector<StagingLine>& lines);

// The warning if the best pinned rate is below the link's usual rate; nullopt: it is not, or the link is unknown.
std::optional<std::string> slow_link(const std::vector<StagingLine>& lines, const LinkFacts& link);

// For several devices at once: bytes per second of all together, over the time of the slowest device, and of the slowest device alone.
struct Combined {
  double sum = 0, slowest = 0;
  uint32_t slowest_device = 0;
};
Combined combined(const std::vector<StagingLine>& lines_of_one_case);

}  // namespace dcp
