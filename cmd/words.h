// Values of options that several commands read.
#pragma once

#include <string>
#include <vector>

namespace dcp::cmd {

// "a,b" as {"a", "b"}.
std::vector<std::string> split_list(const std::string& list);
// A number of [least, most]. Throws usage, which names `option`.
unsigned parse_count(const std::string& text, const char* option, unsigned least, unsigned most);
}  // namespace dcp::cmd
