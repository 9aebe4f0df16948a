// The release of torch that an output is written for, and why it is later than the default.
#pragma once

#include <vector>

namespace dcp {

struct Catalog;
struct KeyNote;
struct Selection;

// The oldest torch that is to load the output: class names in the metadata, and how dicts without tensors are flattened (flat_entries.h).
struct TorchTarget {
  static constexpr unsigned kDefault = 204, kFlattensPlainDicts = 204;
  unsigned version = kDefault;  // major * 100 + minor
  bool requested = false;       // a dtype that it lacks is then an error; else the version rises to one that has it
};

struct TorchNeeded {
  unsigned version = 0;
  std::vector<KeyNote> raised_by;
};
// Throws dtype_needs_torch.
TorchNeeded torch_for(const Catalog& catalog, const Selection& selection, const TorchTarget& target);

}  // namespace dcp
