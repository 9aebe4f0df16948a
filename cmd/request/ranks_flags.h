// The options of commands that several ranks run together, and their report of the ranks.
#pragma once

#include <functional>
#include <string>

#include "app/requests.h"
#include "base/json.h"
#include "line/context.h"

namespace dcp {
struct RankWork;
}

namespace dcp::cmd {

struct RanksFlags {
  std::string transport = "auto";
  std::string gather = "rank0";
  double timeout_s = 60;
  bool alone = false;
  bool requested = false;  // --gather or --transport was given

  // From the launcher's variables and the flags. Throws usage, launch_unclear.
  RankOptions options(const Context& context) const;
};
// For a command that rank 0 runs for all: under a launcher with several ranks, the others do nothing.
std::function<int()> by_rank_0(std::function<int()> run);

enum class Gathers : uint8_t { kNo, kYes };  // kYes: the command writes, so it takes --gather
void add_ranks(Command& command, RanksFlags& flags, Gathers gathers);

// Members "ranks" (what each did; `alone` if there is only one) and, after a failure, "first_failed" (rank, host, code).
void ranks_json(JsonWriter& out, const Context& context, const RankWork& alone);

}  // namespace dcp::cmd
