// What several ranks cost before the first tensor byte moves, at a size that no test machine has: a real catalog of many chunks, and as
// many ranks as asked, as threads over a transport in memory.
//
//     bench_ranks_simulation CHECKPOINT RANKS        (tests/bench/million_chunks.py makes a .metadata with 10^6 chunks)
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "inputs/open.h"
#include "plan/layout.h"
#include "plan/plan.h"
#include "ranks/blocks.h"
#include "ranks/catalog_wire.h"
#include "ranks/rank_group.h"
#include "select/select.h"
#include "unit/ranks/fake_transport.h"

using namespace dcp;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Facts as resolve would find them in items that torch wrote.
Resolved made_up(const Catalog& catalog) {
  Resolved r;
  r.items.resize(catalog.items.size());
  r.strides.push_back(0);
  for (const Tensor& t : catalog.tensors)
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      const ItemId i = catalog.item_of(t, c);
      r.items[i] = {.record = catalog.items[i].offset + 832,
                    .record_bytes = volume(catalog.box(t, c).sizes) * bytes_of(t.dtype),
                    .dtype = t.dtype,
                    .resolved = true,
                    .has_crc = true};
    }
  return r;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto ranks = static_cast<uint32_t>(std::atoi(argv[2]));
  const auto io = make_posix_io();
  double begin = seconds();
  const OpenedCatalog opened = read_checkpoint(*io, argv[1], {});
  const Catalog& catalog = opened.catalog;
  std::printf("catalog: %u chunks, read in %.2f s\n", catalog.chunk_total, seconds() - begin);
  begin = seconds();
  const std::vector<std::byte> wire = catalog_to_wire(opened);
  const Catalog received = catalog_from_wire(wire).catalog;
  std::printf("catalog as a message: %.1f MB, made and read in %.2f s\n", static_cast<double>(wire.size()) / 1e6, seconds() - begin);
  const Resolved resolved = made_up(catalog);
  std::printf("facts of items as a message: %.1f MB\n", static_cast<double>(resolved_to_wire(resolved).size()) / 1e6);

  begin = seconds();
  const Plan plan = plan_safetensors({received, resolved}, select_keys(received, {}), {});
  std::printf("plan: %llu units in %.2f s on every rank\n", static_cast<unsigned long long>(plan.units), seconds() - begin);
  begin = seconds();
  const uint64_t digest = digest_of(plan);
  std::printf("digest of the plan: %016llx in %.3f s\n", static_cast<unsigned long long>(digest), seconds() - begin);
  begin = seconds();
  const Blocks blocks(plan, ranks);
  const Dealing dealing = deal_by_blocks(plan, received, blocks, ranks);
  uint64_t all = 0;
  for (const auto& units : dealing) all += units.size();
  std::printf("dealt to %u ranks: %llu units, %llu of them to two, in %.2f s\n", ranks, static_cast<unsigned long long>(all),
              static_cast<unsigned long long>(all - plan.units), seconds() - begin);

  test::World world(ranks);
  test::g_world = &world;
  begin = seconds();
  {
    // One small message in place of the catalog: how often each rank sends does not depend on what.
    std::vector<std::jthread> threads;
    for (uint32_t r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        StopFlag stop{0};
        Session session(test::fake_transport(), {.by = "simulation", .rank = r, .world_size = ranks},
                        {.timeout_ms = 600000, .identity = "one", .host = "h"}, *io, stop);
        RankTree tree(session);
        tree.broadcast(std::vector<std::byte>(8));
        session.done();
      });
  }
  const auto [least, most] = std::minmax_element(world.store_operations.begin(), world.store_operations.end());
  const uint64_t messages = *std::max_element(world.messages.begin(), world.messages.end()) / 2;  // a length, then the bytes
  std::printf("store operations of a rank for joining: %llu to %llu (beats and looking included), in %.2f s\n",
              static_cast<unsigned long long>(*least), static_cast<unsigned long long>(*most), seconds() - begin);
  std::printf("broadcast of the catalog: a rank sends it to at most %llu others, %.1f MB; all ranks together %.1f GB\n",
              static_cast<unsigned long long>(messages), static_cast<double>(messages * wire.size()) / 1e6,
              static_cast<double>((ranks - 1) * wire.size()) / 1e9);
  return 0;
}
