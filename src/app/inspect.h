// What is in a checkpoint, from its metadata, headers and the sizes of its files; no tensor data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/mapped.h"
#include "app/requests.h"
#include "items/unsafe.h"
#include "select/select.h"

namespace dcp {

struct InspectRequest {
  SourceRequest source;
  uint64_t max_memory = 0;     // bytes
  bool look_into_all = false;  // examine every item's pickle, tensors too; else some, see items/unsafe.h
  bool all_values = false;     // of all that is shown; else of the first few hundred, the trainer's before the optimizer's
  MapRequest map;              // if given, the answer is what it would make
  SelectOptions select;        // what is shown
};

struct InspectResult {
  FrozenCatalog opened;
  std::vector<Problem> findings;
  uint64_t left_out_findings = 0;  // about keys that the selection leaves out, and not in findings
  std::vector<UnsafePickle> unsafe;
  std::map<KeyRef, std::string> values;        // see items/values.h
  std::map<TensorId, std::string> subclasses;  // see items/values.h
  Selection selection;                         // of the catalog
  std::string names_of;                        // the trainer's releases that name the model's parameters so; "": they do not tell
  std::optional<MapAnswer> map;                // what it would make, and what is missing, without throwing

  const Catalog& catalog() const { return opened->catalog; }
  // nullptr: it has none.
  const std::string* value_of(KeyRef key) const;
  const std::string* subclass_of(TensorId tensor) const;
};

// Throws what opening throws; faults that do not prevent reading become findings.
void inspect(const InspectRequest& request, World& world, InspectResult& result);

// Sums over a selection.
struct InspectSummary {
  uint64_t tensors = 0, elements = 0, tensor_bytes = 0, blobs = 0, blob_bytes = 0, chunks = 0;
};
InspectSummary summary_of(const Catalog& catalog, const Selection& selection);

// How items use each data file.
struct FileUse {
  uint64_t items = 0;
  uint64_t item_bytes = 0;
  uint64_t unreferenced = 0;  // bytes in no item; 0 if the file is not there
};
std::vector<FileUse> file_uses(const Catalog& catalog);

}  // namespace dcp
