// The `.metadata` of a DCP folder, which is written from its plan and never held in memory.
#pragma once

#include <functional>
#include <string_view>

#include "plan/plan.h"
#include "plan/tree.h"
#include "select/select.h"

namespace dcp {

// Names, paths and attributes; positions are not known yet.
DcpKeys name_keys(const Catalog& catalog, const Selection& selection, const FlatEntries& flat);

// How copied items are stored: plain, or under the source's transforms.
enum class ItemsAre : uint8_t { kPlain, kAsStored };
// Writes plan.keys. `catalog` is the plan's.
void write_plan_metadata(const Plan& plan, const Catalog& catalog, const std::function<void(std::string_view)>& sink,
                         ItemsAre items = ItemsAre::kPlain);

}  // namespace dcp
