// A queue runs its jobs in order on one thread, and hands on what the first failed one threw.
#include <catch2/catch_test_macros.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/workers.h"

using dcp::SerialQueue;

TEST_CASE("jobs run in order, on one thread that is not the caller's") {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  SerialQueue queue;
  for (int i = 0; i < 100; ++i)
    queue.run([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  queue.wait();
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<size_t>(i)] == i);
  for (const std::thread::id id : threads) CHECK(id == threads[0]);
  CHECK(threads[0] != std::this_thread::get_id());
}

TEST_CASE("a failed job ends those after it until wait() has told") {
  int ran = 0;
  SerialQueue queue;
  queue.run([&] { ++ran; });
  queue.run([] { throw std::runtime_error("first"); });
  queue.run([&] {
    ++ran;
    throw std::runtime_error("second");
  });
  try {
    queue.wait();
    FAIL("nothing was thrown");
  } catch (const std::runtime_error& e) {
    CHECK(std::string(e.what()) == "first");
  }
  CHECK(ran == 1);
  queue.wait();
  queue.run([&] { ++ran; });
  queue.wait();
  CHECK(ran == 2);
}

TEST_CASE("the destructor waits for the jobs") {
  int ran = 0;
  {
    SerialQueue queue;
    for (int i = 0; i < 10; ++i) queue.run([&] { ++ran; });
  }
  CHECK(ran == 10);
}
