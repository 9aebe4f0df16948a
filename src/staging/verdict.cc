#include "staging/verdict.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/text.h"

namespace dcp {
namespace {

// PCI Express Base: 2.5 and 5 GT/s with 8b/10b, 8 to 32 GT/s with 128b/130b, 64 GT/s with 242 of 256 bytes of a flit. GB/s of a lane.
constexpr std::array<double, 7> kLane{0, 0.25, 0.5, 0.98462, 1.96923, 3.93846, 7.5625};
constexpr std::array<double, 7> kUsualOf16{0, 0, 0, 12, 26, 55, 0};

// Up to this multiple of the shortest save, another one counts as equal.
constexpr double kSame = 1.05;
// Ordinary memory is enough if it costs at most that much more than the best.
constexpr double kTolerance = 1.10;

bool is_pinned(StagingMethod m) { return m != StagingMethod::kPageable; }
bool keeps_buffer(StagingMethod m) { return m != StagingMethod::kPageable && m != StagingMethod::kPinnedFresh; }

std::string how_text(const StagingLine& l) {
  std::string text(name_of(l.how.method));
  if (l.how.streams > 1) text += " on " + std::to_string(l.how.streams) + " streams";
  if (l.how.chunk_bytes > 0) text += " in chunks of " + human_bytes(l.how.chunk_bytes);
  if (l.how.node >= 0) text += " on NUMA node " + std::to_string(l.how.node);
  return text;
}

const StagingLine* shortest(const std::vector<StagingLine>& lines, size_t w, bool (*is_wanted)(StagingMethod)) {
  const StagingLine* best = nullptr;
  for (const StagingLine& l : lines)
    if (l.workload == w && l.measured() && is_wanted(l.how.method) && (best == nullptr || l.blocking().median < best->blocking().median))
      best = &l;
  return best;
}

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

double best_rate(const std::vector<StagingLine>& lines) {
  double best = 0;
  for (const StagingLine& l : lines)
    if (l.measured()) best = std::max(best, bytes_per_second(l.bytes, l.copy().min));
  return best;
}

const StagingLine* choose(const std::vector<StagingLine>& lines, size_t w) {
  const StagingLine* best = shortest(lines, w, [](StagingMethod) { return true; });
  if (best == nullptr) return nullptr;
  const double max = static_cast<double>(best->blocking().median) * kSame;
  const auto cost = [](const StagingLine& l) {
    return std::tuple(l.host_bytes + l.device_bytes, l.how.method, l.how.streams, l.how.chunk_bytes, l.how.node);
  };
  const StagingLine* chosen = best;
  for (const StagingLine& l : lines)
    if (l.workload == w && l.measured() && static_cast<double>(l.blocking().median) <= max && cost(l) < cost(*chosen)) chosen = &l;
  return chosen;
}

std::string verdict(const std::vector<StagingLine>& lines, size_t w, const std::string& workload) {
  const StagingLine* best = choose(lines, w);
  if (best == nullptr) return "Nothing could be measured.";
  const StagingLine* pageable = shortest(lines, w, [](StagingMethod m) { return !is_pinned(m); });
  const auto stall = [](const StagingLine& l) { return static_cast<double>(l.blocking().median); };
  if (pageable != nullptr && stall(*pageable) <= kTolerance * stall(*best)) best = pageable;
  std::string text = "Stage " + workload + " by " + how_text(*best) + ": a save stalls training for " + duration(best->blocking().median) +
                     " and takes " + human_bytes(best->host_bytes) +
                     (is_pinned(best->how.method) ? " of pinned host memory" : " of host memory");
  text += keeps_buffer(best->how.method) ? ", kept" : ", for each save anew";
  if (best->device_bytes > 0) text += ", and " + human_bytes(best->device_bytes) + " on the device";
  if (best == pageable) return text + "; pinned memory gains less than a tenth, so mode async is enough.";
  if (pageable != nullptr)
    text += "; pageable memory would stall " + fixed(stall(*pageable) / stall(*best), 1) + " times as long (" +
            duration(pageable->blocking().median) + ")";
  return text + (keeps_buffer(best->how.method) ? ": mode async_with_pinned_mem." : ": mode async.");
}

std::string curve_note(const std::vector<StagingLine>& lines) {
  std::map<uint64_t, uint64_t> fastest;  // median copy by size
  for (const StagingLine& l : lines) {
    if (!l.measured() || l.how.method != StagingMethod::kPinnedReused) continue;
    const uint64_t median = l.copy().median;
    const auto [at, is_new] = fastest.try_emplace(l.bytes, median);
    if (!is_new) at->second = std::min(at->second, median);
  }
  if (fastest.size() < 3) return "";
  double best = 0;
  for (const auto& [bytes, ns] : fastest) best = std::max(best, bytes_per_second(bytes, ns));
  const auto full = std::ranges::find_if(fastest, [&](const auto& f) { return bytes_per_second(f.first, f.second) >= 0.9 * best; });
  return "A pinned copy takes " + duration(fastest.begin()->second) + " at least, and reaches nine tenths of its best rate from " +
         human_bytes(full->first) + " on: what is smaller is better gathered.";
}

std::optional<std::string> slow_link(const std::vector<StagingLine>& lines, const LinkFacts& link) {
  const std::optional<double> usual = usual_rate(link);
  std::vector<StagingLine> pinned;
  std::ranges::copy_if(lines, std::back_inserter(pinned),
                       [](const StagingLine& l) { return is_pinned(l.how.method) && l.bytes >= (64u << 20); });
  const double best = best_rate(pinned);
  if (!usual || best == 0 || best >= *usual) return std::nullopt;
  return "The best pinned copy reaches " + gigabytes(best) + " GB/s; " + link_name(link) + " usually gives " + gigabytes(*usual) +
         " GB/s or more.";
}

Combined combined(const std::vector<StagingLine>& lines) {
  Combined t;
  uint64_t bytes = 0, slowest_ns = 0;
  for (const StagingLine& l : lines) {
    if (!l.measured()) continue;
    bytes += l.bytes;
    if (const uint64_t ns = l.copy().median; ns > slowest_ns) {
      slowest_ns = ns;
      t.slowest = l.rate();
      t.slowest_device = l.device;
    }
  }
  t.sum = bytes_per_second(bytes, slowest_ns);
  return t;
}

}  // namespace dcp
