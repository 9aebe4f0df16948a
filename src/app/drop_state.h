// A full checkpoint becomes model-only where it lies: the model's items, byte for byte, under the same keys. A data file that holds others, too,
// is written anew under another name, new metadata replaces the old one in one step, and then what only the old one named goes.
#pragma once

#include <string>

#include "app/source.h"

namespace dcp {

struct DropRequest {
  SourceRequest source;  // a DCP folder
  uint64_t memory_bytes = 0;
  unsigned threads = 0;  // 0: the default
  bool sync = true;
};

// Bytes that come free, once all is done.
uint64_t freed_by_drop(const DropRequest& request, World& world);
// Returns the same. Throws what opening, choosing keys (several_models) and writing throw; then the checkpoint is as it was, or done.
uint64_t drop_state(const DropRequest& request, World& world);
// What an interrupted run has left in a checkpoint's folder.
bool has_interrupted_drop(Io& io, const std::string& path);
void finish_interrupted_drop(const std::string& path, World& world, bool sync);

}  // namespace dcp
