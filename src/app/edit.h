// A checkpoint gets other names, or fewer keys, by new metadata alone: its data stays as it is, in a new folder that shares it, or where it
// lies. No file that holds data is ever written into.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/source.h"
#include "catalog/select.h"
#include "exec/file_set.h"
#include "plan/edited_metadata.h"

namespace dcp {

struct EditRequest {
  SourceRequest source;
  uint64_t max_memory = 0;  // bytes
  unsigned threads = 0;     // that copy; 0: the default
  SelectOptions select;
  TorchTarget torch;
  std::string out;  // a new folder; "": in place
  Sharing sharing = Sharing::kBest;
  bool keep_original = true;  // in place: the old metadata gets another name
  Replace replace = Replace::kNo;
  bool dry_run = false;
  bool sync = true;
};

// Filled as far as it got.
struct EditResult {
  Catalog catalog;
  Selection selection;
  EditedPlan edited;
  uint64_t metadata_bytes = 0;
  uint64_t files_of[4] = {};  // by Sharing
  uint64_t bytes_of[4] = {};  // by Sharing
  std::string original;       // in place: the name under which the old metadata is kept
  std::vector<std::string>
      unneeded;  // files of the source that no key is in any more: in place they stay, elsewhere they are not taken over
  uint64_t unneeded_bytes = 0;
  uint64_t nanoseconds = 0;
};

// `planned` is called when it stands what is written, before anything is. Throws usage where the source is no DCP folder, nothing_selected,
// metadata_not_enough, share_impossible, and what opening, selecting and writing throw.
void edit(const EditRequest& request, World& world, EditResult& result, const std::function<void()>& planned);

}  // namespace dcp
