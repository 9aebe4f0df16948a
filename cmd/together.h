// One command on several ranks: whether a launcher started this process as one of them, joining them, and how they end together. Only rank
// 0 prints.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "context.h"
#include "ranks/crew.h"
#include "ranks/exchange.h"

namespace dcp::cmd {

struct RanksFlags {
  std::string transport = "auto";
  std::string gather = "rank0";
  double timeout_s = 60;
  bool alone = false;
};
enum class Gathers : uint8_t { kNo, kYes };  // kYes: the command writes, so it takes --gather
void add_ranks(Command& command, RanksFlags& flags, Gathers gathers);

// Lives until the process ends: threads of LibTorch may still use what is here.
class Together {
 public:
  Together(std::unique_ptr<Door> door, const DcpctlTransportTable& table, const Launch& launch, const SessionOptions& options,
           Context& context, Session::GiveUp give_up);
  std::unique_ptr<Door> door;  // where this rank serves the store
  Session session;
  Crew crew;
  std::string transport;       // "gloo, torch 2.11.0"
  uint64_t module_bytes = 0;   // of memory, that loading and joining took
  uint64_t joining_ns = 0;     // loading, and until all ranks had met
  std::vector<RankWork> work;  // at rank 0, at the end
  std::optional<RankFailure> failure;
};

// Joins the ranks of a launcher: context.together. Without a launcher nothing happens, and no module is loaded. Throws launch_unclear,
// module_*, rank_lost, ranks_differ.
void join_ranks(const RanksFlags& flags, Context& context);
// --max-memory; a module's own memory comes on top.
uint64_t memory_cap(const std::string& max_memory, const Context& context);
// The steps of a command that differ between one process and several.
Resolved resolve_together(const Context& context, DataFiles& files, const Catalog& catalog, std::span<const TensorId> tensors,
                          std::span<const BlobId> blobs, const ResolveOptions& options);
ContentOf contents_together(const Context& context, DataFiles& files, const Catalog& catalog, const Resolved& resolved,
                            const Limits& limits);
// Does the units of this rank and serves those of others at the same time.
ExecuteReport execute_together(Context& context, Exchange& exchange, unsigned workers, Progress& progress,
                               const std::function<ExecuteReport()>& units);
// --transport file: throws usage unless every rank sees every file.
void check_transport(const RanksFlags& flags, const Context& context, const Catalog& catalog);
// What the failure of this rank or of another means: the problem to be told and exited with. Others are told of this rank's.
Problem settle(Context& context, const std::exception& error);
// The end of a command that went well: rank 0's code for all; what all ranks did.
int end_ranks(Context& context, int code);

// Members "ranks" (what each did; `alone` where there is one only) and, after a failure, "first_failed" (rank, host, code).
void ranks_json(JsonWriter& out, const Context& context, const RankWork& alone);

}  // namespace dcp::cmd
