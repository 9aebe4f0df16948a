// What `extract --stats` and `inspect --stats` say of tensors as numbers.
#pragma once

#include <string>

#include "app/stats.h"
#include "context.h"

namespace dcp::cmd {

// Of one tensor: a line for each fact, and how its values spread over the powers of ten.
std::string stats_text(const KeyStats& stats);
void stats_json(JsonWriter& out, const KeyStats& stats);  // members of the object that is open

// Of many: which have values that are no numbers, then a row for each.
void stats_json(JsonWriter& out, const StatsResult& result);  // the member "stats"
void print_stats(const StatsResult& result, const Context& context);

}  // namespace dcp::cmd
