// `inspect --map`: what a map would produce, and what is missing, from metadata alone.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "report/inspect_text.h"

namespace dcp::cmd {

// `found` must have a map.
void inspect_mapped_text(const InspectResult& found, InspectView view, Context& context);
std::string inspect_mapped_html(const InspectResult& found);  // a page: source and result side by side
void inspect_mapped_json(const InspectResult& found, const std::function<void(std::string_view)>& write);

}  // namespace dcp::cmd
