// `inspect --map`: what would come out of a map, and what is missing, from metadata alone.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "inspect_text.h"

namespace dcp::cmd {

// `found` has a map.
void inspect_mapped_text(const InspectResult& found, InspectView view, Context& context);
std::string inspect_mapped_html(const InspectResult& found);  // a page: what is there and what it becomes, side by side
void inspect_mapped_json(const InspectResult& found, const std::function<void(std::string_view)>& write);

}  // namespace dcp::cmd
