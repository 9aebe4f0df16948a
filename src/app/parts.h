// The selected parts of a checkpoint, checked to be whole before anything is read.
#pragma once

#include <vector>

#include "app/output.h"
#include "select/select.h"

namespace dcp {

// What is selected.
struct Parts {
  std::vector<TensorId> tensors;
  std::vector<BlobId> blobs;
};
// Throws damage that affects the output, and pickle_unloadable for a name that Python cannot read.
Parts check_selected(const OpenedCatalog& opened, const Selection& selection, const OutputForm& form);

// Throws the first fault of what is selected.
void check_whole(const Catalog& catalog, const Selection& selection);

// Throws damage found while opening, except to keys that are in the catalog but not selected.
void check_kept(const OpenedCatalog& opened, const Selection& selection);

}  // namespace dcp
