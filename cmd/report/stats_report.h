// The statistics of tensors that `extract --stats` and `inspect --stats` show.
#pragma once

#include <string>

#include "app/stats.h"
#include "base/json.h"
#include "line/context.h"
#include "report/page/page.h"

namespace dcp::cmd {

// For one tensor: a line per fact, and the distribution of its values over powers of ten.
std::string stats_text(const KeyStats& stats);
void stats_json(JsonWriter& out, const KeyStats& stats);  // members of the object that is open

// For many: which ones have NaN or infinite values, then a row for each.
void stats_json(JsonWriter& out, const StatsResult& result);  // the member "stats"
// The section "stats" of a page, and the card that says what is in it.
void stats_section(JsonWriter& json, const StatsResult& result);
// ", NaN in 2 tensors"; empty: there is none, and no infinity.
std::string not_finite_text(const StatsResult& result);
Card stats_card(const StatsResult& result);
// What --stats GLOB asks for is not there.
Problem nothing_to_measure(std::string_view glob, const std::string& path);
// `path`: of the checkpoint; "": it is told already.
void print_stats(const StatsResult& result, std::string_view path, const Context& context);

}  // namespace dcp::cmd
