// Keys that belong to ranks of a trainer.
#include <catch2/catch_test_macros.hpp>

#include "catalog/made_blobs.h"
#include "plan/dcp_layout.h"
#include "plan/opened.h"

using namespace dcp;
using namespace dcp::test;

namespace {

std::vector<RankBound> bound(const std::vector<std::string>& keys) {
  FakeIo io;
  MadeCheckpoint made;
  made.tensors = {{"dp_rank_9", DType::int8, {1}, {whole_chunk({1})}}};  // a tensor is no rank's own
  for (const std::string& key : keys) made.blobs.push_back(number_blob(key, 1));
  made.put(io, "ckpt");
  const Opened opened(io);
  return rank_bound_entries(opened.selection);
}

}  // namespace

TEST_CASE("entries of ranks are grouped by what stands before the number") {
  const std::vector<RankBound> found =
      bound({"dataloader.dp_rank_10", "dataloader.dp_rank_2", "dataloader.world_size", "rng.rank_0.cpu", "rng.rank_0.cuda", "rank_1"});
  REQUIRE(found.size() == 3);
  CHECK(found[0].stem == "dataloader.dp_rank_");
  CHECK(found[0].exclude == "dataloader.*");
  CHECK(found[0].ranks == std::vector<uint64_t>{2, 10});
  CHECK(found[1].stem == "rng.rank_");
  CHECK(found[1].ranks == std::vector<uint64_t>{0});
  CHECK(found[2].exclude == "rank_*");
}

TEST_CASE("names that only look like a rank's") {
  for (const char* key :
       {"frank_3", "rank", "rank_", "dp_rank_x", "dp_rank_3b", "ranks_3", "low_rank_adapter", "rank3", "dp_rank_99999999999999999999999"}) {
    CAPTURE(key);
    CHECK(bound({key}).empty());
  }
}
