// Problems in the words of the command line: src/ knows facts, this knows the options that help.
#pragma once

#include "base/problem.h"

namespace dcp::cmd {

// Text and hint of problem_words.def, where the problem has none of its own.
Problem worded(Problem problem);

}  // namespace dcp::cmd
