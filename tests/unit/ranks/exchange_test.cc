#include "ranks/exchange.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>

#include "as_ranks.h"
#include "base/workers.h"
#include "catalog/random_checkpoint.h"
#include "exec/execute.h"
#include "exec/random_map.h"
#include "exec/random_run.h"
#include "maps/derive.h"
#include "plan/dcp_layout.h"
#include "plan/opened.h"
#include "ranks/blocks.h"
#include "ranks/file_visibility.h"
#include "ranks/rank_group.h"
#include "ranks/session.h"

namespace dcp {
namespace {

// Files in memory, each byte written by one thread only: without a lock, so that ThreadSanitizer sees a second one.
class SharedMemory : public Sink {
 public:
  explicit SharedMemory(std::vector<std::string>& files) : files_(files) {}
  void write(uint32_t file, uint64_t offset, Bytes bytes) override {
    std::ranges::copy(as_text(bytes), files_.at(file).begin() + static_cast<int64_t>(offset));
  }
  void finish() override {}
  void commit() override {}
  void abort() noexcept override {}

 private:
  std::vector<std::string>& files_;
};

std::vector<std::string> room_for(const Plan& plan) {
  std::vector<std::string> files;
  for (const OutputFile& f : plan.files) files.emplace_back(f.bytes, '?');
  return files;
}

// What is executed: a checkpoint, or what a map makes of it.
struct Prepared {
  std::optional<Derived> derived;
  Plan plan;
};

struct Crowd {
  uint32_t ranks = 1;
  Writers writers = Writers::kRank0;
};

// `all` has the whole checkpoint `ckpt`; of the ranks each sees the files whose turn it is. Each prepares its plan of its catalog and of
// what all have resolved. The files that they have written together.
template <class Prepare>
std::vector<std::string> written_together(test::FakeIo& all, const Catalog& checkpoint, const Crowd& crowd,
                                          std::vector<std::string> together, const Prepare& prepare) {
  const auto [ranks, writers] = crowd;
  test::World world(ranks);
  const auto said = test::as_ranks(world, ranks, 60000, [&](Session& session, StopFlag& stop) {
    test::FakeIo own;
    own.put_folder("ckpt");
    if (session.rank() == 0) own.put("ckpt/.metadata", all.text_of("ckpt/.metadata"));
    for (uint32_t f = session.rank(); f < checkpoint.files.size(); f += ranks)
      if (const std::string path = checkpoint.file_path(f); all.facts(path)) own.put(path, all.text_of(path));
    RankGroup group(session);
    const FrozenCatalog opened =
        group.share(group.leads() ? read_checkpoint(own, "ckpt", {}) : OpenedCatalog(), own, FollowLinks::kCacheOnly);
    const Catalog& catalog = opened->catalog;
    const Selection selection = select_keys(catalog, {});
    std::vector<TensorId> tensors;
    std::vector<BlobId> blobs;
    for (const Entry& e : selection.entries) e.is_blob() ? blobs.push_back(e.blob()) : tensors.push_back(e.tensor());
    DataFiles files(own, catalog, FollowLinks::kCacheOnly);
    const Resolved resolved = group.resolve(files, tensors, blobs, {.workers = 3, .limits = {}}, stop);
    const Prepared prepared = prepare({catalog, resolved});
    const Source source =
        prepared.derived ? Source{prepared.derived->catalog, prepared.derived->resolved, files} : Source{catalog, resolved, files};
    const Plan& plan = prepared.plan;
    group.check_same_plan(plan);
    const Blocks blocks(plan, ranks);
    SharedMemory whole(together);
    ClippedSink part(whole, blocks, session.rank());
    const bool all_write = writers == Writers::kAll;
    Exchange exchange(session, group.visibility(),
                      {.plan = plan,
                       .source = source,
                       .units = all_write ? deal_by_blocks(plan, source.catalog, blocks, ranks) : deal_to_rank0(plan, ranks),
                       .writers = writers,
                       .workers = 3});
    Progress moved;
    SerialQueue serving;
    serving.run([&] { exchange.serve(2, moved, stop); });
    if (all_write || group.leads())
      execute(plan, source, all_write ? static_cast<Sink&>(part) : whole, {.workers = 3, .supply = &exchange}, {moved, stop});
    serving.wait();
  });
  CHECK(said == std::vector<std::string>(ranks, "no error"));
  return together;
}

}  // namespace

TEST_CASE("Ranks of several workers write what one process writes") {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    test::MadeCheckpoint made = test::random_checkpoint(seed);
    test::FakeIo all;
    made.put(all, "ckpt");
    test::Opened opened(all, "ckpt");
    const Plan plan = opened.torch();
    std::vector<std::string> alone = room_for(plan);
    SharedMemory sink(alone);
    Progress progress;
    execute(plan, {opened.catalog, opened.resolved, opened.files}, sink, {.workers = 1}, {progress, StopFlag{0}});
    for (const Writers writers : {Writers::kRank0, Writers::kAll}) {
      CAPTURE(seed, writers);
      CHECK(written_together(all, opened.catalog, {3, writers}, room_for(plan), [&](const SourceFacts& source) {
              return Prepared{{}, plan_torch(source, select_keys(source.catalog, {}), {})};
            }) == alone);
    }
  }
}

TEST_CASE("Ranks write what one process makes by a map") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    test::RandomMap random = test::random_map(seed);
    test::FakeIo all;
    random.made.put(all, "ckpt");
    test::Opened opened(all, "ckpt");
    const auto prepare = [&](const SourceFacts& source) {
      test::Rng rng(seed);
      Derived d = derive(source, random.maps);
      const Selection selection = select_keys(d.catalog, {});
      const UnitOptions units = test::random_units(rng);
      Plan plan =
          seed % 2 == 0
              ? plan_torch({d.catalog, d.resolved}, selection, {.limits = {}, .units = units})
              : plan_dcp({d.catalog, d.resolved}, selection,
                         {.limits = {}, .units = units, .world_size = 1 + static_cast<uint32_t>(seed % 4), .mesh = {}, .rules = {}});
      return Prepared{std::move(d), std::move(plan)};
    };
    const auto [derived, plan] = prepare({opened.catalog, opened.resolved});
    std::vector<std::string> alone = room_for(plan);
    SharedMemory sink(alone);
    Progress progress;
    execute(plan, {derived->catalog, derived->resolved, opened.files}, sink, {.workers = 1}, {progress, StopFlag{0}});
    for (const Writers writers : {Writers::kRank0, Writers::kAll}) {
      CAPTURE(seed, writers);
      CHECK(written_together(all, opened.catalog, {1 + static_cast<uint32_t>(seed % 4), writers}, room_for(plan), prepare) == alone);
    }
  }
}

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
    RankTree tree(session);
    const FileVisibility visibility = look_together(tree, session, own, opened.catalog, FollowLinks::kCacheOnly).visibility;
    if (session.rank() == 0) {
      Exchange exchange(session, visibility, {plan, {opened.catalog, opened.resolved, opened.files}, deal_to_rank0(plan, 3)});
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
  CHECK(refused == "rank 2: a rank is gone or cannot be reached: gone");
}

TEST_CASE("What another rank decodes is no more than belongs there") {
  test::MadeCheckpoint made;
  made.tensors = {test::whole_tensor("t", DType::float32, {9000})};
  made.tensors[0].chunks[0].zstd = true;
  test::FakeIo all;
  made.put(all, "ckpt");
  test::World world(2);
  const auto said = test::as_ranks(world, 2, 5000, [&](Session& session, StopFlag& stop) {
    test::Opened opened(all, "ckpt");
    const Plan plan = opened.torch();
    // Rank 1 alone has the file, whose item has become a bomb: 40 MiB of zeros, and a frame to skip for the rest of its bytes.
    test::FakeIo own;
    own.put_folder("ckpt");
    if (session.rank() == 1) {
      const Item& item = opened.catalog.items[0];
      std::string bomb = test::made_zstd(std::string(40 * kMiB, '\0'), 40 * kMiB);
      const uint64_t rest = item.length - bomb.size() - 8;
      bomb += "\x50\x2A\x4D\x18";
      for (int i = 0; i < 4; ++i) bomb += static_cast<char>(rest >> (8 * i));
      bomb += std::string(rest, '?');
      own.put(opened.catalog.file_path(0), std::string(all.text_of(opened.catalog.file_path(0))).replace(item.offset, item.length, bomb));
    }
    RankTree tree(session);
    const FileVisibility visibility = look_together(tree, session, own, opened.catalog, FollowLinks::kCacheOnly).visibility;
    DataFiles files(own, opened.catalog, FollowLinks::kCacheOnly);
    Exchange exchange(session, visibility, {plan, {opened.catalog, opened.resolved, files}, deal_to_rank0(plan, 2)});
    Progress moved;
    SerialQueue serving;
    serving.run([&] { exchange.serve(1, moved, stop); });
    std::vector<std::string> written = room_for(plan);
    SharedMemory sink(written);
    if (session.rank() == 0)
      execute(plan, {opened.catalog, opened.resolved, files}, sink, {.workers = 1, .supply = &exchange}, {moved, stop});
    serving.wait();
  });
  CHECK(said[0].find("the zstd stream holds more bytes than belong there") != std::string::npos);
  CHECK(said[1] != "no error");
}

}  // namespace dcp
