// The PCIe link between a GPU and the host: its theoretical and its usual rate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dcp {

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

}  // namespace dcp
