// One use case on several ranks: joining the ranks of a launcher, the steps that differ from a single process, and ending together.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/world.h"
#include "ranks/exchange.h"
#include "ranks/launcher.h"
#include "ranks/rank_group.h"

namespace dcp {

struct RankOptions {
  enum class Transport : uint8_t { kAuto, kFile, kGloo, kNccl };
  std::optional<Launch> launch;  // nullopt: one process
  Transport transport = Transport::kAuto;
  bool all_write = false;  // each rank writes its part of a shared output; else rank 0 writes
  double timeout_s = 60;
  std::string program;                      // name and version, which must be the same on all ranks
  std::string command_line;                 // the same
  std::vector<std::string> module_folders;  // where libdcpctl_c10d.so is looked for
};

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
Resolved resolve_together(World& world, DataFiles& files, std::span<const TensorId> tensors, std::span<const BlobId> blobs,
                          const ResolveOptions& options);
ContentOf contents_together(World& world, const Source& source, const Limits& limits);
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
