// From torch.save files: storages that tensors share.
#include <catch2/catch_test_macros.hpp>

#include "catalog/made_torch_file.h"
#include "exec/execute.h"
#include "exec/memory_sink.h"
#include "plan/layout.h"

using namespace dcp;
using namespace dcp::test;

TEST_CASE("a record that tensors share is checked once") {
  Made m;
  m.dict();
  for (const char* key : {"a", "b", "c"})
    m.key(key).tensor({.dtype = DType::float32, .storage = "0", .storage_elements = 2, .sizes = {1}, .strides = {1}});
  m.end_dict();
  FakeIo io;
  put(io, m.done(), {{"data/0", kEight}});
  const FrozenCatalog opened = open_checkpoint(io, "m.pt", {});
  const Catalog& c = opened->catalog;
  const Resolved r = resolved(io, c);
  const Plan plan = plan_torch({c, r}, select_keys(c, {}), {});
  uint64_t checks = 0;
  for (const Group& g : plan.groups) checks += g.kind == Group::Kind::kCheck;
  CHECK(checks == 1);
  std::string damaged = io.text_of("m.pt");
  damaged[r.items[0].record + 7] ^= 1;  // a byte that no tensor shows
  io.put("m.pt", damaged);
  DataFiles files(io, c, FollowLinks::kCacheOnly);
  MemorySink sink(plan);
  Progress progress;
  const StopFlag stop{0};
  CHECK(execute(plan, {c, r, files}, sink, {.workers = 1}, {progress, stop}).damage.size() == 1);
}
