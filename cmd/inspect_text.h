// Rendering of `inspect`: text for people, the JSON document for programs.
#pragma once

#include "catalog/catalog.h"
#include "catalog/select.h"
#include "context.h"

namespace dcp::cmd {

enum class InspectView : uint8_t { kTree, kKeys, kChunks, kFiles };

void inspect_text(const Catalog& catalog, const Selection& selection, InspectView view, const Context& context);
void inspect_json(const Catalog& catalog, const Selection& selection, const Context& context);

// Sums over a selection that text and JSON both show.
struct InspectSummary {
  uint64_t tensors = 0, elements = 0, tensor_bytes = 0, blobs = 0, blob_bytes = 0, chunks = 0;
};
InspectSummary summary_of(const Catalog& catalog, const Selection& selection);

// What the items leave of each data file.
struct FileUse {
  uint64_t items = 0;
  uint64_t item_bytes = 0;
  uint64_t unreferenced = 0;  // bytes in no item; 0 if the file is not there
};
std::vector<FileUse> file_uses(const Catalog& catalog);

}  // namespace dcp::cmd
