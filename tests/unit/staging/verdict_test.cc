// Statistics, rates, curves and verdicts of recorded results.
#include "staging/verdict.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include "base/limits.h"
#include "base/text.h"

using namespace dcp;
using Catch::Approx;
using enum StagingMethod;

namespace {

struct Recorded {
  StagingMethod method;
  uint64_t bytes;
  std::vector<uint64_t> copy_us;
  uint64_t allocate_us = 0, touch_us = 0;
  unsigned streams = 1;
  uint64_t device_bytes = 0;
  size_t workload = 0;
};

StagingLine line(const Recorded& r) {
  StagingLine l{.workload = r.workload,
                .how = {.method = r.method, .streams = r.streams},
                .bytes = r.bytes,
                .tensors = 1,
                .host_bytes = r.bytes,
                .device_bytes = r.device_bytes};
  for (const uint64_t us : r.copy_us) l.repeats.push_back({r.allocate_us * 1000, r.touch_us * 1000, us * 1000});
  return l;
}

// 16 GB of a Gen5 x16 card.
std::vector<StagingLine> gen5() {
  constexpr uint64_t kBytes = 16'060'522'496;
  return {line({kPageable, kBytes, {2'010'000, 1'990'000, 2'300'000}, 20, 1'500'000}),
          line({kPinnedFresh, kBytes, {291'000, 290'000, 293'000}, 4'100'000}), line({kPinnedReused, kBytes, {290'500, 290'000, 291'000}}),
          line({kPinnedReused, kBytes, {289'000, 289'500, 290'000}, 0, 0, 2}),
          line({kCoalesced, kBytes, {288'000, 287'000, 289'000}, 0, 0, 1, 3'000'000})};
}

}  // namespace

TEST_CASE("the median is a measured value; quartiles give the spread") {
  const Spread one = spread_of({5});
  CHECK(one.min == 5);
  CHECK(one.median == 5);
  CHECK(one.max == 5);
  CHECK(one.quartiles == 0);
  const Spread odd = spread_of({90, 10, 50, 30, 70});
  CHECK(odd.median == 50);
  CHECK(odd.quartiles == Approx(0.8));
  CHECK(spread_of({4, 1, 3, 2}).median == 2);
  CHECK(spread_of({0, 0}).quartiles == 0);
  CHECK(bytes_per_second(1000, 0) == 0);
  CHECK(bytes_per_second(3'000'000'000, 2'000'000'000) == Approx(1.5e9));
}

TEST_CASE("blocking is what a save pays for: allocation and first touch where they recur") {
  const std::vector<StagingLine> lines = gen5();
  CHECK(lines[0].blocking().median == 3'510'020'000);
  CHECK(lines[0].copy().median == 2'010'000'000);
  CHECK(lines[1].blocking().median == 4'391'000'000);
  CHECK(lines[2].blocking().median == lines[2].copy().median);
  CHECK(best_rate(lines) == Approx(16'060'522'496 / 0.287));
}

TEST_CASE("of what is equally short the one with less memory, then the simplest") {
  std::vector<StagingLine> lines = gen5();
  CHECK(choose(lines, 0) == &lines[2]);
  CHECK(choose(lines, 1) == nullptr);
  lines[2].repeats.assign(3, {0, 0, 400'000'000});
  CHECK(choose(lines, 0) == &lines[3]);
  lines[3].unavailable = "no";
  CHECK(choose(lines, 0) == &lines[4]);
  CHECK(choose({}, 0) == nullptr);
}

TEST_CASE("the verdict names method, stall, memory and mode") {
  CHECK(verdict(gen5(), 0, "llama-8b") == "Stage llama-8b by pinned-reused: a save stalls training for 290 ms and takes 15.0 GiB of pinned "
                                          "host memory, kept; pageable memory would stall 12.1 times as "
                                          "long (3.51 s): mode async_with_pinned_mem.");
  const std::vector<StagingLine> same{line({kPageable, 1000, {105}}), line({kPinnedReused, 1000, {100}})};
  CHECK(verdict(same, 0, "x") == "Stage x by pageable: a save stalls training for 105.0 us and takes 1000 B of host memory, for each save "
                                 "anew; pinned memory gains less than a tenth, so mode async is enough.");
  const std::vector<StagingLine> coalesced{line({kCoalesced, 1 << 20, {100}, 0, 0, 2, 1 << 20})};
  CHECK(verdict(coalesced, 0, "x") == "Stage x by pinned-coalesced on 2 streams: a save stalls training for 100.0 us and takes 1.0 MiB of "
                                      "pinned host memory, kept, and 1.0 MiB on the device: mode "
                                      "async_with_pinned_mem.");
  CHECK(verdict({}, 0, "x") == "Nothing could be measured.");
}

TEST_CASE("a curve says what a copy costs at least and where the full rate begins") {
  std::vector<StagingLine> curve;
  for (const auto& [bytes, us] :
       std::vector<std::pair<uint64_t, uint64_t>>{{1 << 10, 9}, {1 << 16, 11}, {1 << 20, 29}, {1 << 24, 320}, {1 << 28, 4900}})
    curve.push_back(line({kPinnedReused, bytes, {us, us, us}}));
  CHECK(curve_note(curve) == "A pinned copy takes 9.0 us at least, and reaches nine tenths of its best rate from 16.0 MiB on: what is "
                             "smaller is better gathered.");
  curve.resize(2);
  CHECK(curve_note(curve).empty());
}

TEST_CASE("what a link carries, and what it usually does") {
  CHECK(link_limit({.generation = 5, .width = 16}) == Approx(63.0e9).epsilon(0.001));
  CHECK(link_limit({.generation = 4, .width = 8}) == Approx(15.75e9).epsilon(0.001));
  CHECK(link_limit({.generation = 99, .width = 16}) == 0);
  CHECK(link_limit({}) == 0);
  CHECK(usual_rate({.generation = 4, .width = 16}) == 26e9);
  CHECK(usual_rate({.generation = 5, .width = 16}) == 55e9);
  CHECK(usual_rate({.generation = 5, .width = 8}) == 27.5e9);
  CHECK(!usual_rate({.generation = 6, .width = 16}));
  CHECK(!usual_rate({}));
  CHECK(link_name({.generation = 5, .width = 16}) == "PCIe Gen5 x16");
  CHECK(link_name({}).empty());
}

TEST_CASE("a rate under the usual one is said, with causes that fit") {
  std::vector<StagingLine> lines = gen5();
  const LinkFacts good{.generation = 5, .width = 16, .generation_max = 5, .width_max = 16};
  CHECK(!slow_link(lines, good));
  CHECK(!slow_link(lines, {}));
  for (StagingLine& l : lines)
    for (Repeat& r : l.repeats) r.copy_ns *= 2;
  CHECK(*slow_link(lines, good) == "The best pinned copy reaches 27.98 GB/s; PCIe Gen5 x16 usually gives 55.00 GB/s or more.");
  CHECK(!slow_link({line({kPinnedReused, 1000, {100}})}, good));  // too small to tell
  CHECK(slow_link_causes(good, false, -1).size() == 2);
  const std::vector<std::string> causes = slow_link_causes({.generation = 3, .width = 8, .generation_max = 5, .width_max = 16}, true, 1);
  REQUIRE(causes.size() == 5);
  CHECK(causes[0].starts_with("the link runs at x8 of x16"));
  CHECK(causes[1].starts_with("the link runs at Gen3 of Gen5"));
  CHECK(causes[2].ends_with("than the GPU's, 1"));
}

TEST_CASE("several devices: the sum goes by the slowest") {
  StagingLine a = line({kPinnedReused, 1'000'000'000, {20'000}}), b = line({kPinnedReused, 1'000'000'000, {40'000}});
  b.device = 1;
  const Combined t = combined({a, b});
  CHECK(t.sum == Approx(50e9));
  CHECK(t.slowest == Approx(25e9));
  CHECK(t.slowest_device == 1);
  CHECK(combined({}).sum == 0);
}

TEST_CASE("durations and sizes as text") {
  CHECK(duration(1'840'000'000) == "1.84 s");
  CHECK(duration(310'400'000) == "310 ms");
  CHECK(duration(12'340'000) == "12.3 ms");
  CHECK(duration(12'340) == "12.3 us");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(15 * kGiB) == "15.0 GiB");
  CHECK(gigabytes(26.1e9) == "26.10");
  CHECK(gigabytes(26.1e6) == "0.026");
}
