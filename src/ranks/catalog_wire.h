// A catalog and its resolved facts, as bytes: rank 0 reads the metadata, every rank gets the catalog. Takes 90 bytes per chunk plus the
// keys, where `.metadata` takes 150, and only rank 0 parses. What each rank must see for itself (file sizes, faults) is not included.
#pragma once

#include <vector>

#include "catalog/catalog.h"
#include "items/resolve.h"

namespace dcp {

// Catalog::torch is not included (catalog_wire.cc says why).
std::vector<std::byte> catalog_to_wire(const OpenedCatalog& opened);
OpenedCatalog catalog_from_wire(Bytes bytes);

// Only what was resolved. merge_resolved adds what another rank has resolved; an item resolved by both is taken once.
std::vector<std::byte> resolved_to_wire(const Resolved& resolved);
void merge_resolved(Resolved& into, const Catalog& catalog, Bytes bytes);

}  // namespace dcp
