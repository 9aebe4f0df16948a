// Copies are planned whole and measured on the CPU device. No timing is judged.
#include "staging/measure.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>

#include "base/error_line.h"
#include "base/limits.h"
#include "staging/cpu_device.h"

using namespace dcp;

namespace {

// A few tensors of odd sizes, small and large.
Workload odd() {
  Workload w = many_of(5, 1000);
  w.tensors.push_back({"large", DType::uint8, {3 << 20}});
  w.tensors.push_back({"scalar", DType::float32, {}});
  w.tensors.push_back({"larger", DType::uint8, {(5 << 20) + 3}});
  return w;
}

// Each byte of each tensor arrives in the buffer exactly once, and no two bytes at one place.
void check_whole(const Workload& w, const CopyPlan& plan) {
  std::vector<int64_t> at(plan.source_bytes, -1);  // by byte of the source: where it lands
  std::vector<uint8_t> taken(plan.host_bytes, 0);
  uint64_t copied = 0;
  bool sound = true;  // one check for all bytes: there are millions
  const auto land = [&](uint64_t from, uint64_t to) {
    sound &= at[from] == -1;
    at[from] = static_cast<int64_t>(to);
    ++taken[to];
  };
  std::vector<int64_t> gathered(plan.gathered_bytes, -1);
  for (const CopyPlan::Part& p : plan.gather)
    for (uint64_t i = 0; i < p.bytes; ++i) gathered[p.at + i] = static_cast<int64_t>(p.from + i);
  for (const CopyPlan::Copy& c : plan.copies) {
    copied += c.bytes;
    REQUIRE(c.to + c.bytes <= plan.host_bytes);
    for (uint64_t i = 0; i < c.bytes; ++i) {
      if (!c.gathered) land(c.from + i, c.to + i);
      else if (gathered[c.from + i] >= 0) land(static_cast<uint64_t>(gathered[c.from + i]), c.to + i);
    }
  }
  const std::vector<uint64_t> offsets = offsets_of(w.tensors, CopyPlan::kSourceAlignment);
  for (size_t t = 0; t < w.tensors.size(); ++t)
    for (uint64_t i = 0; i < tensor_bytes(w.tensors[t]); ++i)
      sound &= at[offsets[t]] >= 0 && at[offsets[t] + i] == at[offsets[t]] + static_cast<int64_t>(i);
  CHECK(sound);
  CHECK(std::ranges::all_of(taken, [](uint8_t n) { return n <= 1; }));
  CHECK(copied >= w.bytes());
}

struct Counters {
  std::atomic<uint64_t> copies{0}, bytes{0}, gathers{0};
};
Counters g_counters;

// The CPU device as two devices that count.
DcpctlDeviceTable counting_table() {
  DcpctlDeviceTable table = cpu_device_table();
  table.count = [](uint32_t* devices, DcpctlReason*) { return *devices = 2, 0; };
  table.copy = [](void* h, void* s, void* to, const void* from, uint64_t bytes, DcpctlReason* e) {
    ++g_counters.copies;
    g_counters.bytes += bytes;
    return cpu_device_table().copy(h, s, to, from, bytes, e);
  };
  table.gather = [](void* h, void* s, void* g, void* to, DcpctlReason* e) {
    ++g_counters.gathers;
    return cpu_device_table().gather(h, s, g, to, e);
  };
  g_counters.copies = g_counters.bytes = g_counters.gathers = 0;
  return table;
}

}  // namespace

TEST_CASE("every byte is copied once, whatever the method, the streams and the chunks") {
  const Workload w = odd();
  for (const StagingMethod method : {StagingMethod::kPinnedReused, StagingMethod::kCoalesced})
    for (const unsigned streams : {1u, 2u, 5u})
      for (const uint64_t chunk : {uint64_t{0}, uint64_t{4096}, kMiB}) {
        CAPTURE(name_of(method), streams, chunk);
        const CopyPlan plan = plan_copies(w, {.method = method, .streams = streams, .chunk_bytes = chunk});
        check_whole(w, plan);
        CHECK(plan.gather.size() == (method == StagingMethod::kCoalesced ? 6u : 0u));
        for (const CopyPlan::Copy& c : plan.copies) {
          CHECK(c.stream < streams);
          if (c.gathered) CHECK(c.stream == 0);
          if (chunk > 0) CHECK(c.bytes <= chunk);
        }
      }
}

TEST_CASE("cases that copy the same are found") {
  const auto redundant = [](const Workload& w, const StagingCase& how) { return is_redundant(plan_copies(w, how), w, how); };
  const Workload one = many_of(1, 4 * kMiB), many = many_of(10, 1024);
  using enum StagingMethod;
  CHECK(!redundant(one, {.method = kPageable}));
  CHECK(redundant(one, {.method = kPinnedReused, .streams = 2}));
  CHECK(!redundant(one, {.method = kPinnedReused, .streams = 2, .chunk_bytes = kMiB}));
  CHECK(redundant(one, {.method = kPinnedReused, .chunk_bytes = 4 * kMiB}));
  CHECK(redundant(one, {.method = kCoalesced}));
  CHECK(!redundant(many, {.method = kCoalesced}));
  CHECK(redundant(many, {.method = kCoalesced, .streams = 2}));
  CHECK(!redundant(many, {.method = kPinnedReused, .streams = 2}));
}

TEST_CASE("each method runs on the CPU device, as often as asked") {
  const auto io = make_posix_io();
  const StopFlag stop{0};
  const DcpctlDeviceTable table = counting_table();
  Device device(table, 0);
  const Workload w = odd();
  const std::vector<StagingSource> sources{make_source(device, {w})};
  for (const StagingMethod method : kStagingMethods) {
    CAPTURE(name_of(method));
    g_counters.bytes = g_counters.gathers = 0;
    const std::vector<StagingLine> lines = measure(*io, sources, {w, {.method = method, .streams = 2}}, {.warmup = 1, .repeats = 3}, stop);
    REQUIRE(lines.size() == 1);
    const StagingLine& l = lines[0];
    REQUIRE(l.unavailable.empty());
    CHECK(l.repeats.size() == 3);
    const CopyPlan plan = plan_copies(w, l.how);
    CHECK(l.host_bytes == plan.host_bytes);
    CHECK(l.copies == plan.copies.size());
    uint64_t planned = 0;
    for (const CopyPlan::Copy& c : plan.copies) planned += c.bytes;
    CHECK(g_counters.bytes == 4 * planned);
    CHECK(g_counters.gathers == (method == StagingMethod::kCoalesced ? 4u : 0u));
    const bool fresh = method == StagingMethod::kPageable || method == StagingMethod::kPinnedFresh;
    CHECK((l.setup_ns == 0) == fresh);
    for (const Repeat& r : l.repeats) CHECK((r.allocate_ns > 0) == fresh);
  }
}

TEST_CASE("several devices start together, and each has its line") {
  const auto io = make_posix_io();
  const StopFlag stop{0};
  const DcpctlDeviceTable table = counting_table();
  const Workload w = many_of(2, 100000);
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<StagingSource> sources;
  for (uint32_t d = 0; d < device_count(table); ++d) {
    devices.push_back(std::make_unique<Device>(table, d));
    sources.push_back(make_source(*devices.back(), {w}));
  }
  const std::vector<StagingLine> lines =
      measure(*io, sources, {w, {.method = StagingMethod::kPinnedReused}}, {.warmup = 0, .repeats = 2}, stop);
  REQUIRE(lines.size() == 2);
  CHECK(lines[1].device == 1);
  CHECK(lines[0].repeats.size() == 2);
  CHECK(lines[1].repeats.size() == 2);
  CHECK(g_counters.bytes == 2 * 2 * 200000);
}

TEST_CASE("what the device refuses is a line that says why; a signal ends the repeats") {
  const auto io = make_posix_io();
  DcpctlDeviceTable table = cpu_device_table();
  table.pin = [](void*, void*, uint64_t, DcpctlReason* e) {
    std::snprintf(e->text, sizeof e->text, "not allowed");
    return 1;
  };
  Device device(table, 0);
  const Workload w = many_of(1, 5000);
  const std::vector<StagingSource> sources{make_source(device, {w})};
  const StopFlag running{0}, stopped{15};
  const auto line = [&](StagingMethod method, const StopFlag& stop) {
    return measure(*io, sources, {w, {.method = method}}, {.warmup = 0, .repeats = 2}, stop).at(0);
  };
  CHECK(line(StagingMethod::kRegistered, running).unavailable == "pinning: not allowed");
  CHECK(!line(StagingMethod::kRegistered, running).measured());
  CHECK(line(StagingMethod::kPageable, running).measured());
  CHECK(line(StagingMethod::kPageable, stopped).repeats.empty());
}

TEST_CASE("what does not fit into memory is refused before anything is allocated") {
  const std::vector<Workload> one{many_of(1, 4 * kMiB)};
  const auto id = [&](uint64_t devices, uint64_t on_device, uint64_t on_host, DeviceMemory memory) {
    return test::error_id([&] { check_memory(one, devices, on_device, on_host, memory); });
  };
  CHECK(id(1, 4 * kMiB, 4 * kMiB, DeviceMemory::kOwn).empty());
  CHECK(id(2, 4 * kMiB, 4 * kMiB, DeviceMemory::kOwn) == "staging_memory");
  CHECK(id(1, 4 * kMiB - 1, kGiB, DeviceMemory::kOwn) == "staging_memory");
  CHECK(id(1, 0, 8 * kMiB, DeviceMemory::kHosts).empty());
  CHECK(id(1, 0, 8 * kMiB - 1, DeviceMemory::kHosts) == "staging_memory");
}
