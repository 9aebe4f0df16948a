// One use case on several ranks: joining the ranks of a launcher, the steps that differ from a single process, and ending together.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/requests.h"
#include "app/world.h"
#include "ranks/exchange.h"
#include "ranks/rank_group.h"

namespace dcp {

// Lives until the process ends: threads of LibTorch may still use what is here.
class RankedRun {
 public:
  RankedRun(std::unique_ptr<Door> door, const DcpctlTransportTable& table, const Launch& launch, const SessionOptions& options,
            World& world);
  std::unique_ptr<Door> door;  // where this rank serves the store
  Session session;
  RankGroup group;
  std::string transport;       // "gloo, torch 2.11.0"
  uint64_t module_bytes = 0;   // memory taken by loading and joining
  uint64_t joining_ns = 0;     // from loading until all ranks have joined
  std::vector<RankWork> work;  // at rank 0, at the end
  std::optional<RankFailure> failure;
};

// Sets world.ranks. Without a launch it does nothing and loads no module. Throws module_*, rank_lost, ranks_differ.
void join_ranks(const RankOptions& options, World& world);
// Does the units of this rank and serves those of others at the same time.
ExecuteReport execute_together(World& world, Exchange& exchange, unsigned workers, Progress& progress,
                               const std::function<ExecuteReport()>& units);
// Transport::kFile: throws usage unless every rank sees every file.
void check_transport(const RankOptions& options, const World& world, const Catalog& catalog);
// Picks the problem to report and exit with, this rank's or that of the rank that failed first, and publishes this rank's to the others.
Problem resolve_failure(World& world, const std::exception& error);
// The end of a use case that went well: rank 0's code, to all.
int end_ranks(World& world, int code);

// Whether this process sees a data file.
bool sees_file(const World& world, const Catalog& catalog, uint32_t file);

// What a rank sees, for people who set up a cluster.
struct RankView {
  uint32_t rank = 0;
  std::string host, launcher, store, transport;
  uint64_t files = 0, files_seen = 0;  // of the checkpoint
};
// At rank 0: the views of all ranks, by rank.
std::vector<RankView> gather_views(World& world, uint64_t files, uint64_t files_seen);

}  // namespace dcp
