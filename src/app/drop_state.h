// Makes a full checkpoint model-only in place: the model's items stay, byte for byte, under the same keys. A data file that also holds
// others is rewritten under another name, new metadata replaces the old in one step, and then the files that only the old one named are
// removed.
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

// Bytes that will be freed.
uint64_t freed_by_drop(const DropRequest& request, World& world);
// Does it; returns the bytes freed. Throws what opening, choosing keys (several_models) and writing throw; the checkpoint is then either
// unchanged or done.
uint64_t drop_state(const DropRequest& request, World& world);
// Whether an interrupted run left something in a checkpoint's folder.
bool has_interrupted_drop(Io& io, const std::string& path);
void finish_interrupted_drop(const std::string& path, World& world, bool sync);

}  // namespace dcp
