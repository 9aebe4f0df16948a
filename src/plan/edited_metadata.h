// Plans that move no tensor: new metadata for items that do not change by a byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/dcp_layout.h"
#include "plan/plan.h"

namespace dcp {

struct EditedFile {
  uint32_t source = 0;  // in the catalog's files
  // Its content, in this order; empty: the whole source file.
  struct Range {
    uint64_t from = 0, bytes = 0;
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> ranges;
};

struct EditedPlan {
  Plan plan;                      // files without `.metadata`, and its keys
  std::vector<EditedFile> files;  // of plan.files
  uint64_t unreferenced = 0;      // bytes in them that no key uses any more
};

// The selected keys under their names, in the files that hold them. Throws keys_collide, dtype_needs_torch; metadata_not_enough if items
// would have to be rewritten.
EditedPlan plan_edit(const Catalog& catalog, const Selection& selection, const TorchTarget& torch);

// The same, dropping what is not selected: a file that also holds unselected items is replaced by a new file without them, under a name not
// in `taken`.
EditedPlan plan_compaction(const Catalog& catalog, const Selection& selection, const TorchTarget& torch,
                           const std::vector<std::string>& taken);

// The size of the plan's `.metadata`.
uint64_t metadata_bytes(const EditedPlan& edited, const Catalog& catalog);

}  // namespace dcp
