// Values of options that several commands read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dcp::cmd {

// "a,b" as {"a", "b"}.
std::vector<std::string> split_list(const std::string& list);
// The text as shells read it: in quotes, or each odd character behind a backslash.
std::string shell_quoted(std::string_view text);
std::string shell_word(std::string_view text);
// A number of [least, most]. Throws usage, which names `option`.
unsigned parse_count(const std::string& text, const char* option, unsigned min, unsigned max);
}  // namespace dcp::cmd
