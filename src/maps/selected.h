// Applies a map to the selected keys of a checkpoint, under their final names.
#pragma once

#include <span>
#include <vector>

#include "maps/resolve.h"
#include "maps/run_keys.h"
#include "select/select.h"

namespace dcp::maps {

// The selection that a map sees: names without an added root, and the source's dtypes.
SelectOptions before_map(SelectOptions select);

// What a map takes: parameters of a checkpoint, or what another map has made.
std::vector<Source> sources_of(const Catalog& catalog, std::span<const Parameter> parameters);
std::vector<Source> as_sources(const std::vector<IndexMap>& made);

// As resolve(), with TensorIds of the catalog for sources. Ignores byte items: a map sees only tensors.
Resolved resolve_selected(const ModelMap& map, Config config, const ResolveOptions& options, const Catalog& catalog,
                          std::span<const Parameter> parameters);

// The selection of a map's result: its names under the requested root and in the requested dtypes. Keys left out before stay reported, and
// so do objects other than `used`, which are sorted.
Selection select_mapped(const Catalog& derived, const SelectOptions& options, Selection before, std::span<const BlobId> used);

}  // namespace dcp::maps
