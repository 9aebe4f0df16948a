// Changes a checkpoint by new metadata: items stay as they are, byte for byte. A file that holds data is never written to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/stages.h"
#include "files/file_set.h"
#include "plan/edited_metadata.h"
#include "select/select.h"

namespace dcp {

// Renames or drops keys: the data stays as it is, in a new folder that shares it, or in place.
struct EditRequest {
  SourceRequest source;
  uint64_t max_memory = 0;  // bytes
  unsigned threads = 0;     // for copying; 0: the default
  SelectOptions select;
  TorchTarget torch;
  std::string out;  // a new folder; "": in place
  Sharing sharing = Sharing::kBest;
  bool keep_original = true;  // in place: keep the old metadata under another name
  Replace replace = Replace::kNo;
  bool dry_run = false;
  bool sync = true;
};

// Filled as far as it got.
struct EditResult {
  FrozenCatalog opened;
  Selection selection;
  EditedPlan edited;
  uint64_t metadata_bytes = 0;
  uint64_t files_of[4] = {};          // by Sharing
  uint64_t bytes_of[4] = {};          // by Sharing
  std::string original;               // in place: the name under which the old metadata is kept
  std::vector<std::string> unneeded;  // files of the source that hold no key any more: in place they stay, a new folder does not get them
  uint64_t unneeded_bytes = 0;
  uint64_t nanoseconds = 0;

  const Catalog& catalog() const { return opened->catalog; }
};

// `planned` is called once the plan is made, before anything is written. Throws usage if the source is not a DCP folder, nothing_selected,
// metadata_not_enough, share_impossible, and what opening, selecting and writing throw.
void edit(const EditRequest& request, World& world, EditResult& result, const std::function<void()>& planned);

// Makes a full checkpoint model-only in place: the model's items stay under the same keys. A data file that also holds others is rewritten under
// another name, new metadata replaces the old in one step, and then the files that only the old one named are removed.
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
