#include "ranks/exchange.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>

#include "as_ranks.h"
#include "catalog/made_checkpoint.h"
#include "plan/opened.h"
#include "ranks/blocks.h"
#include "ranks/sight.h"
#include "ranks/tree.h"

namespace dcp {

// What the sanitizers see: the message of rank 1 arrives where a buffer was.
TEST_CASE("A buffer outlives its batch while a message may still arrive in it") {
  constexpr uint32_t kTag = 1;  // of the first batch
  test::World world(3);
  std::atomic<bool> failed = false;
  std::string refused;
  const auto said = test::as_ranks(world, 3, 60000, [&](Session& session, StopFlag&) {
    test::MadeCheckpoint made;
    test::MadeTensor tensor{.key = "t", .dtype = DType::float32, .dims = {3000}, .chunks = {}};
    for (unsigned r = 0; r < 3; ++r) tensor.chunks.push_back({.offsets = {1000 * r}, .sizes = {1000}, .file = r});
    made.tensors = {tensor};
    test::FakeIo all, own;
    made.put(all, "ckpt");
    test::Opened opened(all, "ckpt");
    const Plan plan = opened.torch();
    const std::string file(opened.catalog.strings[opened.catalog.files[session.rank()].name]);
    own.put("ckpt/" + file, std::string(opened.catalog.files[session.rank()].bytes.value(), 'x'));
    Tree tree(session);
    const Sight sight = look_together(tree, session, own, opened.catalog, FollowLinks::kCacheOnly);
    if (session.rank() == 0) {
      Exchange exchange(session, sight, plan, opened.catalog, opened.resolved, opened.files, deal_to_rank0(plan, 3), Writers::kRank0, 1);
      {
        const std::lock_guard lock(world.mutex);
        world.refuses = 2;
      }
      refused = test::error_line([&] { exchange.take(0); });  // rank 1 was asked already
      failed = true;
    } else if (session.rank() == 1) {
      while (!failed) std::this_thread::yield();
      const std::vector<std::byte> bytes(4000);
      session.link().send(0, kTag, bytes).wait();
    }
  });
  CHECK(said == std::vector<std::string>(3, "no error"));
  CHECK(refused == "rank 2: a rank is gone or cannot be reached (got gone)");
}

}  // namespace dcp
