// The effect of selecting and renaming keys: lines on stderr, members of the JSON document.
#pragma once

#include <string>
#include <vector>

#include "catalog/select.h"
#include "context.h"

namespace dcp::cmd {

void describe_selection(Context& context, const Selection& selection);

// Rules that match nothing, such as a mistyped one; one per line.
std::vector<std::string> unmatched_rules(const Selection& selection);
std::vector<std::string> unmatched_lines(const std::vector<UnmatchedRule>& rules);
// Warns of them; if `strict`, ends the command.
void describe_unmatched(Context& context, const std::vector<std::string>& unmatched, bool strict);
// `rules`: the rule options of the command, "--include, --rename, ...".
void add_strict(Command& c, bool& strict, const std::string& rules, const std::string& group);

// `left_out_objects`: objects that the output's form left out, in addition to those that the selection did.
void selection_json(JsonWriter& out, const Catalog& catalog, const Selection& selection, uint64_t left_out_objects);

}  // namespace dcp::cmd
