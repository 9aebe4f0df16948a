// `inspect --map`: what would come out of a map, and what is missing, from metadata alone.
#pragma once

#include <functional>
#include <string_view>

#include "inspect_text.h"
#include "mapped.h"

namespace dcp::cmd {

void inspect_mapped_text(const Catalog& catalog, const MapAnswer& answer, InspectView view, const Context& context);
void inspect_mapped_json(const Catalog& catalog, const MapAnswer& answer, const std::function<void(std::string_view)>& write);

}  // namespace dcp::cmd
