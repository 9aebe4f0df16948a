#include "ranks/session.h"

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "as_ranks.h"
#include "base/error_line.h"
#include "base/fake_io.h"
#include "catalog/build.h"
#include "catalog/made_checkpoint.h"
#include "ranks/file_visibility.h"
#include "ranks/wire.h"

namespace dcp {

TEST_CASE("Trees reach every rank once, and nobody talks to more than log2 of them") {
  for (const uint32_t size : {1u, 2u, 3u, 7u, 8u, 33u, 64u}) {
    INFO(size);
    test::World world(size);
    const std::vector<std::byte> bytes(1000, std::byte{7});
    std::vector<int> same(size);  // checked by this thread only: Catch's own state is not for several
    uint64_t heard = 0;
    const auto said = test::as_ranks(world, size, 60000, [&](Session& session, StopFlag&) {
      RankTree tree(session);
      same[session.rank()] = tree.broadcast(session.rank() == 0 ? bytes : std::vector<std::byte>()) == bytes;
      uint64_t ranks = uint64_t{1} << session.rank() % 64;
      tree.gather([&](Bytes b) { ranks += WireReader(b).number<uint64_t>(); },
                  [&] {
                    WireWriter out;
                    out.number(ranks);
                    return out.take();
                  });
      if (session.rank() == 0) heard = ranks;
    });
    for (const std::string& s : said) CHECK(s == "no error");
    CHECK(same == std::vector<int>(size, 1));
    CHECK(heard == ~uint64_t{0} >> (64 - size));
    for (const uint64_t sent : world.bytes_sent) CHECK(sent <= static_cast<uint64_t>(std::bit_width(size)) * (1000 + 8 + 16 + 8));
  }
}

TEST_CASE("What a stranger writes into the store ends the ranks, and nothing worse") {
  WireWriter no_such_problem;
  no_such_problem.number<uint32_t>(1);
  no_such_problem.number<int>(3);
  no_such_problem.text("host");
  no_such_problem.number<uint16_t>(60000);
  const std::vector<std::byte> bytes = no_such_problem.take();
  const std::string unknown(as_text(bytes));
  for (const std::string& value : {std::string("noise"), std::string(60000, '\xFF'), std::string(4, '\0'), unknown}) {
    test::World world(3);
    const auto said = test::as_ranks(world, 3, 60000, [&](Session& session, StopFlag&) {
      if (session.rank() == 1) session.link().set(kDcpctlMain, "dcpctl/0/1/failed", value);
      for (;;) {
        session.check();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    for (const std::string& s : said)
      CHECK(s == "rank 0: a rank is gone or cannot be reached: the store holds a failure that no rank has written");
  }
}

TEST_CASE("A failing rank is the reason that all others name") {
  test::World world(4);
  std::vector<RankFailure> failures(4);
  std::vector<int> stopped(4);
  const auto said = test::as_ranks(world, 4, 60000, [&](Session& session, StopFlag& stop) {
    if (session.rank() == 2) {
      session.fail_with(make_problem(ProblemId::short_file, {.path = "shard"}));
      return;
    }
    std::byte never{};
    try {
      session.link().receive(2, 9, {&never, 1}).wait();
    } catch (const Error& e) {
      failures[session.rank()] = session.fail_with(e.problem());
    }
    stopped[session.rank()] = stop;
    throw Error(problem_of(failures[session.rank()]));
  });
  for (const uint32_t r : {0u, 1u, 3u}) {
    CHECK(failures[r].rank == 2);
    CHECK(class_of(failures[r].problem.id) == ProblemClass::kInput);
    CHECK(failures[r].host == "h2");
    CHECK(stopped[r] == Session::kStopped);
  }
  for (const uint32_t r : {0u, 1u, 3u})
    CHECK(said[r] == "rank 2 on h2: another rank failed: shard: the file ends before the bytes that belong there");
}

TEST_CASE("Ranks of two builds do not begin") {
  test::World world(3);
  const auto said =
      test::as_ranks(world, 3, 60000, [](Session&, StopFlag&) {}, [](uint32_t r) { return r == 1 ? "another build" : "one build"; });
  for (const std::string& s : said) CHECK(s.find("the ranks do not belong together") != std::string::npos);
}

TEST_CASE("A rank that never starts is named") {
  test::World world(3);
  std::vector<std::string> said(3);
  test::g_world = &world;
  const auto io = make_posix_io();
  {
    std::vector<std::jthread> threads;
    for (const uint32_t r : {0u, 2u})
      threads.emplace_back([&, r] {
        StopFlag stop{0};
        said[r] = test::error_line([&] {
          Session(test::fake_transport(), {.by = "a test", .rank = r, .world_size = 3},
                  {.timeout_ms = 300, .identity = "one", .host = "h", .give_up = [](const RankFailure&) {}}, *io, stop);
        });
      });
  }
  for (const uint32_t r : {0u, 2u}) CHECK(said[r] == "rank 1: a rank is gone or cannot be reached: not started within 0.3 s");
}

TEST_CASE("A rank that does not come back from connecting is named") {
  test::World world(3);
  world.stuck = 1;
  const auto said = test::as_ranks(world, 3, 300, [](Session& session, StopFlag& stop) {
    while (stop == 0) std::this_thread::yield();
    session.check();
  });
  for (const std::string& s : said)
    CHECK(s == "rank 1: a rank is gone or cannot be reached: stuck while connecting to the others, for lack of memory or threads");
}

TEST_CASE("Store operations of joining do not grow with the number of ranks") {
  uint64_t most[2] = {};
  for (const uint32_t size : {4u, 64u}) {
    test::World world(size);
    // What grows with time and not with ranks: beats, and looking whether all have come.
    test::as_ranks(world, size, 600000, [](Session&, StopFlag&) {});
    for (const uint64_t n : world.store_operations) most[size == 64] = std::max(most[size == 64], n);
  }
  CHECK(most[1] < most[0] + 64);
}

TEST_CASE("Who sees which file is found by looking") {
  // Each rank has the catalog, and a folder of its own.
  const auto look = [](const std::vector<std::map<std::string, std::string>>& disks, std::vector<FileVisibility>& sights,
                       std::vector<std::string>& faults) {
    const auto size = static_cast<uint32_t>(disks.size());
    test::World world(size);
    sights.resize(size);
    faults.resize(size);
    return test::as_ranks(world, size, 60000, [&](Session& session, StopFlag&) {
      test::MadeCheckpoint made;
      for (unsigned f = 0; f < 3; ++f) {
        test::MadeChunk chunk = test::whole_chunk({2});
        chunk.file = f;
        made.tensors.push_back({.key = "t" + std::to_string(f), .dtype = DType::float32, .dims = {2}, .chunks = {chunk}});
      }
      const Catalog catalog = build_catalog(made.content(), "ckpt", "ckpt").catalog;
      test::FakeIo io;
      for (const auto& [name, text] : disks[session.rank()]) io.put("ckpt/" + name, text);
      RankTree tree(session);
      const FilesTogether files = look_together(tree, session, io, catalog, FollowLinks::kCacheOnly);
      sights[session.rank()] = files.visibility;
      for (const FileLook& f : files.found)
        if (f.fault) faults[session.rank()] += to_line(*f.fault);
    });
  };
  std::vector<FileVisibility> sights;
  std::vector<std::string> faults;
  const auto said = look({{{"__0_0.distcp", "abc"}}, {{"__0_0.distcp", "abc"}, {"__1_0.distcp", "x"}}, {}}, sights, faults);
  for (uint32_t r = 0; r < 3; ++r) {
    INFO(r);
    CHECK(said[r] == "no error");
    CHECK(faults[r] == to_line(make_problem(ProblemId::file_unseen, {.path = "ckpt/__2_0.distcp"})));
    CHECK(sights[r].files() == 3);
    CHECK((sights[r].sees(0, 0) && sights[r].sees(1, 0) && sights[r].sees(1, 1)));
    CHECK_FALSE((sights[r].sees(2, 0) || sights[r].sees(0, 1) || sights[r].sees(0, 2)));
    CHECK(sights[r].reader(0, 1) == 1);  // itself
    CHECK(sights[r].reader(0, 2) == 0);
    CHECK(sights[r].reader(1, 2) == 1);
    CHECK(sights[r].files_seen(1) == 2);
  }
  const std::string twice = to_line(make_problem(ProblemId::file_seen_twice, {.path = "ckpt/__0_0.distcp"}));
  const auto differ = look({{{"__0_0.distcp", "abc"}}, {{"__0_0.distcp", "abcd"}}}, sights, faults);
  CHECK(std::ranges::find(differ, twice) != differ.end());
  const auto stale = look({{{"__0_0.distcp", "abc"}}, {{"__0_0.distcp", "abd"}}, {}}, sights, faults);
  CHECK(std::ranges::find(stale, twice) != stale.end());
}

}  // namespace dcp
