// Measures one way of copying a workload from a device to the host.
//
// The time that blocks training is split into allocating the buffer, touching its pages for the first time, and copying. Methods that keep
// their buffer pay for the first two once (`setup_ns`), the others at each save.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/io.h"
#include "base/workers.h"
#include "staging/device.h"
#include "staging/workload.h"

namespace dcp {

// --- numbers of repeated measurements

struct Spread {
  uint64_t min = 0, median = 0, max = 0;  // nanoseconds
  // The distance of the quartiles divided by the median.
  double quartiles = 0;
};

// There must be at least one value. The median of an even number of values is the lower of the middle two, so that it is a measured value.
Spread spread_of(std::vector<uint64_t> values);

inline double bytes_per_second(uint64_t bytes, uint64_t ns) {
  return ns == 0 ? 0 : static_cast<double>(bytes) * 1e9 / static_cast<double>(ns);
}

// --- methods

enum class StagingMethod : uint8_t {
  kPageable,        // ordinary memory, allocated for each save
  kPinnedFresh,     // pinned memory, allocated for each save
  kPinnedReused,    // pinned memory, allocated once
  kRegistered,      // ordinary memory, allocated and pinned once
  kRegisteredHuge,  // the same on huge pages
  kCoalesced,       // pinned memory, allocated once; small tensors are gathered on the device and copied as one
};
inline constexpr StagingMethod kStagingMethods[] = {StagingMethod::kPageable,       StagingMethod::kPinnedFresh,
                                                    StagingMethod::kPinnedReused,   StagingMethod::kRegistered,
                                                    StagingMethod::kRegisteredHuge, StagingMethod::kCoalesced};
std::string_view name_of(StagingMethod method);
std::optional<StagingMethod> method_named(std::string_view name);

struct StagingCase {
  StagingMethod method{};
  unsigned streams = 1;
  uint64_t chunk_bytes = 0;  // of one copy at most; 0: whole tensors
  int node = -1;             // NUMA node of the buffer; -1: left to the kernel
};

// Which bytes go where, as a value: offsets in the source, where each tensor begins at a multiple of kSourceAlignment, and in the buffer.
struct CopyPlan {
  static constexpr uint64_t kSourceAlignment = 512;  // as torch's caching allocator
  static constexpr uint64_t kHostAlignment = 64;
  static constexpr uint64_t kSmall = 1 << 20;  // tensors up to that size are gathered

  struct Copy {
    uint64_t from = 0, to = 0, bytes = 0;
    bool gathered = false;  // `from` is in the gathered buffer
    unsigned stream = 0;
  };
  struct Part {
    uint64_t from = 0, at = 0, bytes = 0;
  };
  std::vector<Part> gather;  // gathered into a buffer on the device, on stream 0
  std::vector<Copy> copies;
  uint64_t source_bytes = 0, host_bytes = 0, gathered_bytes = 0;
};
CopyPlan plan_copies(const Workload& workload, const StagingCase& how);
// Whether another case, with fewer streams, larger chunks or a simpler method, makes the same copies.
bool is_redundant(const CopyPlan& plan, const Workload& workload, const StagingCase& how);

struct Repeat {
  uint64_t allocate_ns = 0, touch_ns = 0, copy_ns = 0;
  uint64_t blocking_ns() const { return allocate_ns + touch_ns + copy_ns; }
};

// One line of the table.
struct StagingLine {
  uint32_t device = 0;
  size_t workload = 0;  // position in the list of workloads
  StagingCase how;
  uint64_t bytes = 0, tensors = 0, copies = 0;
  uint64_t setup_ns = 0;        // once: allocating, touching, pinning
  std::vector<Repeat> repeats;  // warm-up left out
  uint64_t host_bytes = 0;      // of the buffer
  uint64_t device_bytes = 0;    // in addition to the tensors
  std::string note;             // "huge pages by madvise"
  std::string unavailable;      // why there are no repeats; "": there are

  bool measured() const { return unavailable.empty(); }
  Spread copy() const;
  Spread blocking() const;
  double rate() const { return bytes_per_second(bytes, copy().median); }  // bytes a second
};

// Throws staging_memory unless every workload fits: its tensors (and the gathered buffer) into `device_free` bytes of each device, a buffer
// per device into `host_available`; with kHosts, both together into the latter.
enum class DeviceMemory : uint8_t { kOwn, kHosts };
void check_memory(const std::vector<Workload>& workloads, uint64_t devices, uint64_t device_free, uint64_t host_available,
                  DeviceMemory memory);

struct MeasureOptions {
  unsigned warmup = 2, repeats = 7;
};

// A device whose memory stands for the tensors of any workload: it has room for the largest, and is filled with noise.
struct StagingSource {
  Device* device = nullptr;
  Device::Memory memory;
};
StagingSource make_source(Device& device, const std::vector<Workload>& workloads);

// Copies from all `sources` at the same time, each on its own thread; every repeat has a common start. Gives one line per source; if one
// device cannot do it, none does. When `stop` is set there are fewer repeats, or none. Throws failures that are not the device's.
struct StagingJob {
  const Workload& workload;
  StagingCase how;
};
std::vector<StagingLine> measure(Io& io, const std::vector<StagingSource>& sources, const StagingJob& job, const MeasureOptions& options,
                                 const StopFlag& stop);

}  // namespace dcp
