#include "base/workers.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <csignal>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error_line.h"

namespace dcp {
namespace {

TEST_CASE("each ordinal runs once, on workers numbered from zero") {
  const StopFlag stop{0};
  for (const unsigned workers : {0u, 1u, 3u, 16u}) {
    std::vector<std::atomic<int>> runs(100);
    std::atomic<unsigned> highest{0};
    parallel_for(workers, runs.size(), stop, [&](unsigned worker, uint64_t ordinal) {
      ++runs[ordinal];
      if (worker > highest) highest = worker;
    });
    for (const auto& n : runs) REQUIRE(n == 1);
    CHECK(highest < std::max(workers, 1u));
  }
}

TEST_CASE("one worker is the caller, and starts in order") {
  const StopFlag stop{0};
  std::vector<uint64_t> order;
  const auto caller = std::this_thread::get_id();
  parallel_for(1, 5, stop, [&](unsigned, uint64_t ordinal) {
    CHECK(std::this_thread::get_id() == caller);
    order.push_back(ordinal);
  });
  CHECK(order == std::vector<uint64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("nothing to do is no error") {
  const StopFlag stop{0};
  parallel_for(4, 0, stop, [](unsigned, uint64_t) { FAIL("not reached"); });
}

TEST_CASE("the lowest failed ordinal is reported, however slow it is") {
  const StopFlag stop{0};
  for (int round = 0; round < 20; ++round) {
    std::mutex mutex;
    std::set<uint64_t> ran;
    std::string what;
    try {
      parallel_for(4, 1000, stop, [&](unsigned, uint64_t ordinal) {
        {
          const std::lock_guard lock(mutex);
          ran.insert(ordinal);
        }
        if (ordinal == 10) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (ordinal >= 10) throw std::runtime_error("ordinal " + std::to_string(ordinal));
      });
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    REQUIRE(what == "ordinal 10");
    REQUIRE(ran.size() == *ran.rbegin() + 1);  // no gap below the highest that started
    REQUIRE(*ran.rbegin() < 10 + 4);           // at most one more for each other worker
  }
}

TEST_CASE("a stop lets running ordinals end and starts no others") {
  StopFlag stop{0};
  uint64_t ran = 0;
  const auto stop_at_three = [&](int signal) {
    stop = 0;
    ran = 0;
    return test::error_id([&] {
      parallel_for(1, 10, stop, [&](unsigned, uint64_t ordinal) {
        if (ordinal == 3) stop = signal;
        ++ran;
      });
    });
  };
  CHECK(stop_at_three(SIGINT) == "interrupted");
  CHECK(ran == 4);
  CHECK(stop_at_three(SIGTERM) == "terminated");
  CHECK(ran == 4);
}

TEST_CASE("a stop that came before starts nothing") {
  const StopFlag stop{SIGTERM};
  CHECK(test::error_id([&] { parallel_for(2, 10, stop, [](unsigned, uint64_t) { FAIL("not reached"); }); }) == "terminated");
}

TEST_CASE("the default number of workers is bounded") {
  CHECK(default_workers() >= 4);
  CHECK(default_workers() <= 16);
}

TEST_CASE("a ticker ticks until it is destroyed, and not before one interval") {
  std::atomic<int> ticks{0};
  {
    const Ticker slow(60'000, [&] { ++ticks; });  // destroyed long before
  }
  CHECK(ticks == 0);
  {
    const Ticker fast(1, [&] { ++ticks; });
    while (ticks < 3) std::this_thread::yield();
  }
  const int after = ticks;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(ticks == after);
}

}  // namespace
}  // namespace dcp
