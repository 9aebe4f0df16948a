// PCIe and NVLink facts, from NVML (libnvidia-ml.so.1, opened at run time: the toolkit has only a stub of it), else from sysfs.
#pragma once

#include <cstdint>
#include <string>

namespace dcpctl_cuda {

// 0 means unknown; for the node, -1 does.
struct BusFacts {
  uint32_t generation_max = 0, width_max = 0;
  uint32_t nvlink_version = 0, nvlink_links = 0;
  int numa_node = -1;
};
struct BusLink {
  uint32_t generation = 0, width = 0;
};

// `bus_id` in the form "0000:1b:00.0".
BusFacts bus_facts(const std::string& bus_id);
BusLink bus_link(const std::string& bus_id);

// 4 for "16.0 GT/s PCIe"; 0: unknown.
uint32_t generation_of_speed(const std::string& speed);

}  // namespace dcpctl_cuda
