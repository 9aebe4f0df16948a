#include "catalog/data_files.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "base/workers.h"
#include "catalog/build.h"
#include "catalog/made_checkpoint.h"

using namespace dcp;
using namespace dcp::test;

namespace {

// A checkpoint with a file for every tensor, as torch 1.13 wrote them.
struct ManyFiles {
  explicit ManyFiles(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      MadeChunk c = whole_chunk({3});
      c.file = i;
      made.tensors.push_back({"t" + std::to_string(i), DType::uint8, {3}, {c}});
    }
    made.put(io, "ckpt");
    catalog = build_catalog(made.content(), "ckpt", "ckpt").catalog;
  }
  uint64_t opened() const { return io.calls(dcp::test::Op::kOpen); }
  MadeCheckpoint made;
  FakeIo io;
  Catalog catalog;
};

}  // namespace

TEST_CASE("at most 256 files are open, the most recently used ones") {
  ManyFiles c(300);
  DataFiles files(c.io, c.catalog, FollowLinks::kCacheOnly);
  for (uint32_t f = 0; f < 300; ++f) files.open(f);
  CHECK(c.opened() == 300);
  CHECK(c.io.open_handles() == 256);
  for (uint32_t f = 44; f < 300; ++f) files.open(f);
  CHECK(c.opened() == 300);
  files.open(44);  // now the most recent
  files.open(0);   // evicts 45
  CHECK(c.opened() == 301);
  files.open(44);
  CHECK(c.opened() == 301);
  files.open(45);
  CHECK(c.opened() == 302);
}

TEST_CASE("a file that somebody holds stays open past its eviction") {
  ManyFiles c(300);
  {
    DataFiles files(c.io, c.catalog, FollowLinks::kCacheOnly);
    const auto held = files.open(7);
    for (uint32_t f = 0; f < 300; ++f)
      if (f != 7) files.open(f);
    CHECK(c.io.open_handles() == 257);
    std::byte byte{};
    CHECK(c.io.read(held->get(), 0, {&byte, 1}) == 1);
  }
  CHECK(c.io.open_handles() == 0);
}

TEST_CASE("many workers open many files") {
  ManyFiles c(400);
  DataFiles files(c.io, c.catalog, FollowLinks::kCacheOnly);
  const StopFlag stop{0};
  parallel_for(5, 4000, stop, [&](unsigned, uint64_t n) {
    const auto file = files.open(static_cast<uint32_t>(n * 37 % 400));
    std::byte byte{};
    if (files.store().read(file->get(), 0, {&byte, 1}) != 1) fail(ProblemId::internal, {});
  });
  CHECK(c.io.open_handles() == 256);
}

TEST_CASE("a file that is not there") {
  ManyFiles c(2);
  c.io.take("ckpt/__1_0.distcp");
  DataFiles files(c.io, c.catalog, FollowLinks::kCacheOnly);
  CHECK(error_line([&] { files.open(1); }) == "ckpt/__1_0.distcp: a data file of the checkpoint is missing");
  CHECK(files.open(0) != nullptr);
}
