// What is selected, checked to be whole before anything is read.
#pragma once

#include <vector>

#include "app/output.h"
#include "catalog/select.h"

namespace dcp {

// What is selected.
struct Parts {
  std::vector<TensorId> tensors;
  std::vector<BlobId> blobs;
};
// Throws damage that concerns what the output holds, and pickle_unloadable for a name that Python could not read.
Parts check_selected(const OpenedCatalog& opened, const Selection& selection, const OutputForm& form);

// Throws damage that was found while opening, but of what is in the catalog and not selected.
void check_kept(const OpenedCatalog& opened, const Selection& selection);

}  // namespace dcp
