// What prune will do or has done, as text and as JSON.
#pragma once

#include <functional>
#include <string_view>

#include "app/prune.h"
#include "line/context.h"

namespace dcp::cmd {

struct PlanShown {
  bool partial = false;         // what interrupted saves have left goes, too
  bool is_carried_out = false;  // without being asked about
};
void print_plan(const PruneResult& found, PlanShown shown, const Context& context);
// Whether the person at the terminal says so. Throws usage if there is none.
bool agrees(const PruneResult& found, Context& context);
void print_done(const PruneResult& found, const Context& context);
void prune_json(const PruneResult& found, bool dry_run, int exit, const std::function<void(std::string_view)>& write);

}  // namespace dcp::cmd
