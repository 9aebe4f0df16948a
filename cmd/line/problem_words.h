// Puts problems into the words of the command line: src/ knows facts, this knows the options that help.
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "line/exit_status.h"

namespace dcp::cmd {

struct Context;

// Fills in the texts of problem_words.def where the problem has none of its own, and names its setting as an option. Idempotent.
Problem worded(Problem problem);
// For step_in_parts: the command line that was typed, with each of the checkpoints in place of the run and its step. If the run was not
// typed, the command alone.
std::string commands_of_parts(const Context& context, const Problem& problem);
// "--prefer-rank" for the request's "prefer_rank".
std::string option_of(std::string_view setting);

// What the problem says where SIGHUP stopped the run.
constexpr std::string_view kHungUp = "the terminal was closed";
Exit exit_of(const Problem& problem);

// A problem as an object of --json: an error with its exit code, a finding with its severity.
void error_json(JsonWriter& json, const Problem& problem);
void finding_json(JsonWriter& json, const Problem& problem);

}  // namespace dcp::cmd
