// The effect of selecting and renaming keys: lines on stderr, members of the JSON document.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "line/context.h"
#include "select/select.h"

namespace dcp::cmd {

// ": a, b and 3 more"
std::string names_of(const LeftOut& left_out);
// Names, up to ten; of more three rows as an outline folds them: "lr_scheduler.* (12), param_groups.* (40)". `keys`: how many there are, if more
// than these.
std::string folded_names(const std::vector<std::string>& names, uint64_t keys = 0);
// Of keys that still have a wrapper's prefix, and of FSDP1's flat parameters.
std::string wrapped_text(const Selection& selection);
std::string flat_text(const Selection& selection);
void describe_selection(Context& context, const Selection& selection);

// Rules that match nothing, such as a mistyped one; one per line.
std::vector<std::string> unmatched_rules(const Selection& selection);
std::vector<std::string> unmatched_lines(const std::vector<UnmatchedRule>& rules);
// Warns of them.
void describe_unmatched(Context& context, const std::vector<std::string>& unmatched);

// `left_out_objects`: objects that the output's form left out, in addition to those that the selection did.
void selection_json(JsonWriter& out, const Catalog& catalog, const Selection& selection, uint64_t left_out_objects);

}  // namespace dcp::cmd
