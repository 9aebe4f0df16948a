// What the choice of keys and their names did: lines on stderr, members of the JSON document.
#pragma once

#include <string>
#include <vector>

#include "catalog/select.h"
#include "context.h"

namespace dcp::cmd {

void describe_selection(Context& context, const Selection& selection);

// Rules that match nothing, each in a line; a typing error in a rule is one.
std::vector<std::string> unmatched_rules(const Selection& selection);
std::vector<std::string> no_key_for(const std::vector<UnmatchedRule>& rules);
// Warnings; if `strict` the end of the command.
void describe_unmatched(Context& context, const std::vector<std::string>& unmatched, bool strict);
// `rules`: those that the command has, "--include, --rename, ...".
void add_strict(Command& c, bool& strict, const std::string& rules, const std::string& group);

// `left_out_objects`: objects that the output's form left out, beside those that the choice of keys did.
void selection_json(JsonWriter& out, const Catalog& catalog, const Selection& selection, uint64_t left_out_objects);

}  // namespace dcp::cmd
