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
Parts check_selected(const Catalog& catalog, const Selection& selection, const OutputForm& form);

}  // namespace dcp
