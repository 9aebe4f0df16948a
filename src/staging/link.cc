#include "staging/link.h"

#include <array>

namespace dcp {
namespace {

// PCI Express Base: 2.5 and 5 GT/s with 8b/10b, 8 to 32 GT/s with 128b/130b, 64 GT/s with 242 of 256 bytes of a flit. GB/s of a lane.
constexpr std::array<double, 7> kLane{0, 0.25, 0.5, 0.98462, 1.96923, 3.93846, 7.5625};
constexpr std::array<double, 7> kUsualOf16{0, 0, 0, 12, 26, 55, 0};

}  // namespace

double link_limit(const LinkFacts& link) { return link.generation < kLane.size() ? kLane[link.generation] * link.width * 1e9 : 0; }

std::optional<double> usual_rate(const LinkFacts& link) {
  if (link.generation >= kUsualOf16.size() || kUsualOf16[link.generation] == 0 || link.width == 0) return std::nullopt;
  return kUsualOf16[link.generation] * link.width / 16 * 1e9;
}

std::string link_name(const LinkFacts& link) {
  if (link.generation == 0 || link.width == 0) return "";
  return "PCIe Gen" + std::to_string(link.generation) + " x" + std::to_string(link.width);
}

std::vector<std::string> slow_link_causes(const LinkFacts& link, bool several_nodes, int device_node) {
  std::vector<std::string> causes;
  if (link.width < link.width_max)
    causes.push_back("the link runs at x" + std::to_string(link.width) + " of x" + std::to_string(link.width_max) +
                     ": the card's seat, a riser or the slot");
  if (link.generation < link.generation_max)
    causes.push_back("the link runs at Gen" + std::to_string(link.generation) + " of Gen" + std::to_string(link.generation_max) +
                     " under load: firmware settings or signal errors");
  if (several_nodes)
    causes.push_back(device_node < 0
                         ? "the buffer may lie on the NUMA node that the GPU is not attached to"
                         : "the buffer or the process may be on another NUMA node than the GPU's, " + std::to_string(device_node));
  causes.push_back("other traffic on the same root port or in DRAM, such as another GPU, a network card or a writer");
  causes.push_back("a virtual machine, IOMMU translation or PCIe access control between GPU and host");
  return causes;
}

}  // namespace dcp
