// A checkpoint opened, selected and resolved, as a command does it before it plans.
#pragma once

#include <string>
#include <vector>

#include "base/io.h"
#include "catalog/structure.h"
#include "inputs/open.h"
#include "items/resolve.h"
#include "plan/layout.h"
#include "select/select.h"

namespace dcp::test {

struct Opened {
  explicit Opened(Io& io, const std::string& path = "ckpt", const SelectOptions& select = {}, unsigned workers = 1,
                  BlobUse use = BlobUse::kPickles)
      : opened(open_checkpoint(io, path, {})), catalog(opened->catalog), files(io, catalog, FollowLinks::kCacheOnly) {
    selection = select_keys(catalog, select);
    std::vector<TensorId> tensors;
    std::vector<BlobId> blobs;
    for (const Entry& e : selection.entries) {
      if (e.is_blob()) {
        check_item(catalog, catalog.item_of(e.blob()), catalog.key(e.ref), "");
        blobs.push_back(e.blob());
      } else {
        check_whole(catalog, catalog.tensors[e.tensor()]);
        tensors.push_back(e.tensor());
      }
    }
    const StopFlag stop{0};
    resolved = resolve(files, tensors, blobs, {.workers = workers, .blobs = use, .limits = {}}, stop);
  }

  Plan torch(const LayoutOptions& options = {}) const { return plan_torch({catalog, resolved}, selection, options); }
  Plan safetensors(const LayoutOptions& options = {}) const { return plan_safetensors({catalog, resolved}, selection, options); }

  FrozenCatalog opened;
  const Catalog& catalog;
  DataFiles files;
  Selection selection;
  Resolved resolved;
};

}  // namespace dcp::test
