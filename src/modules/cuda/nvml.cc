#include "modules/cuda/nvml.h"

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>

namespace dcpctl_cuda {
namespace {

// nvml.h of CUDA 13: functions return 0 when they succeed; a device is an opaque pointer.
using NvmlDevice = void*;
constexpr unsigned kMaxNvLinks = 18;

class Nvml {
 public:
  Nvml() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return;
    const auto init = symbol<int (*)()>("nvmlInit_v2");
    handle_ = symbol<int (*)(const char*, NvmlDevice*)>("nvmlDeviceGetHandleByPciBusId_v2");
    if (init == nullptr || init() != 0) handle_ = nullptr;
  }

  // The number that one call returns; 0 if it fails.
  uint32_t number(const std::string& bus_id, const char* function) const {
    unsigned value = 0;
    const NvmlDevice device = find(bus_id);
    const auto get = device == nullptr ? nullptr : symbol<int (*)(NvmlDevice, unsigned*)>(function);
    return get != nullptr && get(device, &value) == 0 ? value : 0;
  }

  void nvlink(const std::string& bus_id, BusFacts& facts) const {
    const NvmlDevice device = find(bus_id);
    const auto state = symbol<int (*)(NvmlDevice, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState");
    const auto version = symbol<int (*)(NvmlDevice, unsigned, unsigned*)>("nvmlDeviceGetNvLinkVersion");
    if (device == nullptr || state == nullptr || version == nullptr) return;
    for (unsigned link = 0; link < kMaxNvLinks; ++link) {
      unsigned active = 0, v = 0;
      if (state(device, link, &active) != 0 || active == 0) continue;
      ++facts.nvlink_links;
      if (version(device, link, &v) == 0) facts.nvlink_version = v;
    }
  }

 private:
  template <class F>
  F symbol(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<F>(dlsym(library_, name));
  }
  NvmlDevice find(const std::string& bus_id) const {
    NvmlDevice device = nullptr;
    return handle_ != nullptr && handle_(bus_id.c_str(), &device) == 0 ? device : nullptr;
  }

  void* library_ = nullptr;  // stays open: the driver is loaded anyway
  int (*handle_)(const char*, NvmlDevice*) = nullptr;
};

const Nvml& nvml() {
  static const Nvml nvml;
  return nvml;
}

std::string sysfs(const std::string& bus_id, const char* name) {
  std::ifstream file("/sys/bus/pci/devices/" + bus_id + "/" + name);
  std::string line;
  std::getline(file, line);
  return line;
}

uint32_t width_of(const std::string& text) { return static_cast<uint32_t>(std::strtoul(text.c_str(), nullptr, 10)); }

}  // namespace

uint32_t generation_of_speed(const std::string& speed) {
  const double gt = std::strtod(speed.c_str(), nullptr);
  return gt >= 64 ? 6 : gt >= 32 ? 5 : gt >= 16 ? 4 : gt >= 8 ? 3 : gt >= 5 ? 2 : gt >= 2.5 ? 1 : 0;
}

BusFacts bus_facts(const std::string& bus_id) {
  BusFacts f{.generation_max = nvml().number(bus_id, "nvmlDeviceGetMaxPcieLinkGeneration"),
             .width_max = nvml().number(bus_id, "nvmlDeviceGetMaxPcieLinkWidth")};
  if (f.generation_max == 0) f.generation_max = generation_of_speed(sysfs(bus_id, "max_link_speed"));
  if (f.width_max == 0) f.width_max = width_of(sysfs(bus_id, "max_link_width"));
  nvml().nvlink(bus_id, f);
  if (const std::string node = sysfs(bus_id, "numa_node"); !node.empty()) f.numa_node = std::atoi(node.c_str());
  return f;
}

BusLink bus_link(const std::string& bus_id) {
  BusLink l{.generation = nvml().number(bus_id, "nvmlDeviceGetCurrPcieLinkGeneration"),
            .width = nvml().number(bus_id, "nvmlDeviceGetCurrPcieLinkWidth")};
  if (l.generation == 0) l.generation = generation_of_speed(sysfs(bus_id, "current_link_speed"));
  if (l.width == 0) l.width = width_of(sysfs(bus_id, "current_link_width"));
  return l;
}

}  // namespace dcpctl_cuda
