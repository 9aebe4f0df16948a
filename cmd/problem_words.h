// Problems in the words of the command line: src/ knows facts, this knows the options that help.
#pragma once

#include "base/problem.h"

namespace dcp::cmd {

// With the texts of problem_words.def where the problem has none of its own, and its setting as an option. Twice is as once.
Problem worded(Problem problem);
// Of the request's "prefer_rank": "--prefer-rank".
std::string option_of(std::string_view setting);

}  // namespace dcp::cmd
