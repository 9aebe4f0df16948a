// Values of options that several commands read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/dtype.h"

namespace dcp::cmd {

// "a,b" as {"a", "b"}.
std::vector<std::string> split_list(const std::string& list);
// The text quoted for a shell: in quotes, or with a backslash before each special character.
std::string shell_quoted(std::string_view text);
std::string shell_word(std::string_view text);
// A number in [min, max]. Throws usage, naming `option`.
unsigned parse_count(const std::string& text, const char* option, unsigned min, unsigned max);
// 512MiB, 5GB, 64k, 1000: bytes. Throws usage.
uint64_t parse_size(const std::string& text);
// "5%" or "5": above 0, up to 100. Throws usage.
double parse_percent(const std::string& text, std::string_view option);
// A finite number from 0 on. Throws usage.
double parse_tolerance(const std::string& text, std::string_view option);

// A dtype that tensors may be cast to, by torch's name or a short one (bf16). Throws usage, listing them. All names that parse_dtype
// accepts, long ones first.
std::vector<std::string> dtype_names();
DType parse_dtype(const std::string& text);

}  // namespace dcp::cmd
