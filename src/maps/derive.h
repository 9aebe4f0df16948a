// The result of a map as a checkpoint of its own: a catalog whose tensors are those of the map and whose chunks are pieces of the source's
// items, seen with other strides. No byte moves; layouts, units, sums and digests work as if it had been saved that way.
#pragma once

#include <span>
#include <string>

#include "catalog/catalog.h"
#include "items/resolve.h"
#include "maps/index_map.h"

namespace dcp {

namespace maps {
struct RunState;
}

// Names, folder and files are those of the source's catalog, so files opened for it serve this one too.
struct Derived {
  Catalog catalog;
  Resolved resolved;
};

// Tensors in the order of `maps`. The items of all their sources must be resolved. Throws map_quantized for a source that is not a plain
// tensor, over_limit for blocks with more axes than a tensor can have dims, internal for maps that violate index_map.h.
Derived derive(const SourceFacts& source, std::span<const IndexMap> maps);

// Objects of a run beside the tensors of a map: copied under other keys, or, for lists of parameters, rebuilt.

// Call after the tensors. The objects must be resolved with their pickles. Throws map_tied_differ for objects that must be equal and are
// not, and what reading a pickle throws.
void add_objects(const SourceFacts& source, const maps::RunState& run, Derived& derived);

// The source itself with more objects: no tensor becomes another.

struct NewObject {
  std::string key;
  std::string pickle;
};
// Their BlobIds follow those of the source. Where they go in an output, a selection says.
Derived with_objects(const SourceFacts& source, std::span<const NewObject> objects);

// The source with tensors of another checkpoint too, under their keys there. These must be resolved. The names of both are in the result.
Derived with_tensors(const SourceFacts& source, const SourceFacts& other, std::span<const TensorId> tensors);

}  // namespace dcp
