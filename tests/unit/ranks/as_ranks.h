// Ranks as threads of a test.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "base/error_line.h"
#include "fake_transport.h"
#include "ranks/session.h"

namespace dcp::test {

// Runs `body` as each of `size` ranks, each a thread; returns what each of them said when it failed.
template <class Body>
std::vector<std::string> as_ranks(World& world, uint32_t size, uint32_t timeout_ms, const Body& body,
                                  const std::function<std::string(uint32_t)>& identity = {}) {
  g_world = &world;
  std::vector<std::string> said(size);
  const auto io = make_posix_io();
  {
    std::vector<std::jthread> threads;
    for (uint32_t r = 0; r < size; ++r)
      threads.emplace_back([&, r] {
        StopFlag stop{0};
        said[r] = error_line([&] {
          Session session(fake_transport(), {.by = "a test", .rank = r, .world_size = size},
                          {.timeout_ms = timeout_ms,
                           .identity = identity ? identity(r) : "one build",
                           .host = "h" + std::to_string(r),
                           .give_up =
                               [&](const RankFailure&) {  // the end of the process, and so of its threads
                                 const std::lock_guard lock(world.mutex);
                                 world.stuck.reset();
                                 world.changed.notify_all();
                               }},
                          *io, stop);
          body(session, stop);
          session.done();
        });
      });
  }
  return said;
}

}  // namespace dcp::test
