// A map meets the keys of a checkpoint that are selected, under their final names.
#pragma once

#include <span>
#include <vector>

#include "catalog/select.h"
#include "maps/resolve.h"
#include "maps/run_keys.h"

namespace dcp::maps {

// What is selected for a map: it sees names without --add-root, and the dtypes that there are.
SelectOptions before_map(SelectOptions select);

// As resolve(), with TensorIds of the catalog for sources. Byte items are not looked at: a map sees tensors.
Resolved resolve_selected(const ModelMap& map, Config config, const ResolveOptions& options, const Catalog& catalog,
                          std::span<const Parameter> parameters);

// The selection of what a map has made: its names under the root and in the dtypes that are asked for. What was left out before stays told, and
// so are objects that `derived` is not made of.
Selection select_mapped(const Catalog& derived, const SelectOptions& options, Selection before);

}  // namespace dcp::maps
