// What is checked before anything is read: that what is selected is whole, and that the output lies apart from it.
#pragma once

#include <string>
#include <vector>

#include "app/output.h"
#include "catalog/select.h"

namespace dcp {

// Throws output_in_source.
void refuse_source(const std::string& path, const Catalog& catalog);

// What is selected.
struct Parts {
  std::vector<TensorId> tensors;
  std::vector<BlobId> blobs;
};
// Throws damage that concerns what the output holds, and pickle_unloadable for a name that Python could not read.
Parts check_selected(const Catalog& catalog, const Selection& selection, const OutputForm& form);

}  // namespace dcp
