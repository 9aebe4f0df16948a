// The `.metadata` of a DCP folder, written from its plan and never held.
#pragma once

#include <functional>
#include <string_view>

#include "catalog/select.h"
#include "plan/flat_entries.h"
#include "plan/plan.h"

namespace dcp {

// Names, paths and attributes; where keys lie is not known yet.
DcpKeys name_keys(const Catalog& catalog, const Selection& selection, const FlatEntries& flat);

// Items that are copied: written plain, or as they are in the source, under its transforms.
enum class ItemsAre : uint8_t { kPlain, kAsStored };
// From plan.keys. `catalog`: that of the plan.
void write_plan_metadata(const Plan& plan, const Catalog& catalog, const std::function<void(std::string_view)>& sink,
                         ItemsAre items = ItemsAre::kPlain);

}  // namespace dcp
