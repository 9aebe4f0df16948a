// Findings of `inspect` and `verify`: their order and words, and the unsafe pickles, of which a checkpoint may have thousands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/problem.h"
#include "items/unsafe.h"
#include "line/context.h"
#include "line/lines.h"

namespace dcp::cmd {

// Findings of one kind that stand together, in natural order of their files: __0_2 before __0_10.
void sort_naturally(std::vector<Problem>& findings);

// "damage:", and its style.
std::string_view severity_word(Severity severity);
Style style_of(Severity severity);

// The member "unsafe": each of them.
void unsafe_json(JsonWriter& json, const std::vector<UnsafePickle>& unsafe);

}  // namespace dcp::cmd
