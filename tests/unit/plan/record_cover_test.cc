#include "plan/record_cover.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <random>

using namespace dcp;

namespace {

std::vector<uint64_t> all_of(uint64_t first, std::span<const ViewAxis> axes) {
  std::vector<uint64_t> at{first};
  for (const ViewAxis& a : axes) {
    std::vector<uint64_t> next;
    for (const uint64_t p : at)
      for (int64_t i = 0; i < a.size; ++i) next.push_back(p + static_cast<uint64_t>(i * a.stride));
    at = std::move(next);
  }
  return at;
}

}  // namespace

TEST_CASE("views of a record and the gaps between them have each position once") {
  uint64_t covers = 0, gaps = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937_64 rng(seed);
    CAPTURE(seed);
    // A record of 1 to 3 axes, parted along one of them, each part seen along axes in a random order; and sometimes once more, or not at all.
    std::vector<ViewAxis> axes(1 + rng() % 3);
    int64_t total = 1;
    for (ViewAxis& a : axes) {
      a.size = static_cast<int64_t>(1 + rng() % 5);
      a.stride = total;
      total *= a.size;
    }
    const size_t parted = rng() % axes.size();
    std::vector<Positions> views;
    bool whole = true;
    for (int64_t from = 0; from < axes[parted].size;) {
      std::vector<ViewAxis> part = axes;
      part[parted].size = static_cast<int64_t>(1 + rng() % static_cast<uint64_t>(axes[parted].size - from));
      const auto first = static_cast<uint64_t>(from * axes[parted].stride);
      from += part[parted].size;
      std::ranges::shuffle(part, rng);
      bool once = false;
      Positions p = positions_of(first, part, once);
      CHECK(once);
      std::vector<uint64_t> same = all_of(p.first, p.axes), of_part = all_of(first, part);
      std::ranges::sort(same);
      std::ranges::sort(of_part);
      CHECK(same == of_part);
      CHECK(p.count() == of_part.size());
      CHECK(p.end() == of_part.back() + 1);
      const bool left_out = rng() % 8 == 0;
      whole = whole && !left_out;
      if (!left_out) views.push_back(p);
      if (!left_out && rng() % 8 == 0) views.push_back(p);
    }
    std::map<uint64_t, int> times;
    const RecordCover cover = cover_of(views, static_cast<uint64_t>(total));
    for (const uint32_t n : cover.views)
      for (const uint64_t at : all_of(views[n].first, views[n].axes)) ++times[at];
    for (const auto& [begin, end] : cover.gaps)
      for (uint64_t at = begin; at < end; ++at) ++times[at];
    for (const auto& [at, n] : times) REQUIRE(n == 1);
    const bool is_seen = times.size() == static_cast<uint64_t>(total);
    REQUIRE((cover.views.empty() || is_seen));
    if (whole) CHECK((is_seen && cover.gaps.empty()));
    covers += !cover.views.empty();
    gaps += !cover.views.empty() && !cover.gaps.empty();
  }
  CHECK(covers > 1000);
  CHECK(gaps > 100);
}

TEST_CASE("a position that comes twice is seen") {
  bool once = true;
  positions_of(0, std::vector<ViewAxis>{{.size = 3, .stride = 0}, {.size = 4, .stride = 1}}, once);
  CHECK_FALSE(once);
  positions_of(0, std::vector<ViewAxis>{{.size = 3, .stride = 2}, {.size = 4, .stride = 1}}, once);
  CHECK_FALSE(once);
  positions_of(5, std::vector<ViewAxis>{{.size = 3, .stride = 7}, {.size = 4, .stride = 2}}, once);
  CHECK(once);
  CHECK(cover_of({}, 5).views.empty());
}
