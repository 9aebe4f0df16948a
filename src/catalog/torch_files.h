// What a catalog of torch.save files keeps of them: where storages lie, and the pickles from which byte items are cut.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "catalog/catalog.h"
#include "catalog/state_dict.h"
#include "format/blob.h"
#include "pickle/graph.h"

namespace dcp {

// The same for one file. Immutable, so it can be used from any thread.
struct TorchFile {
  BlobItem archive;                    // data.pkl, and where every storage lies in the file
  StoragesByKey storages;              // of the archive
  std::unique_ptr<PickleGraph> graph;  // of data.pkl
  uint64_t unreferenced_bytes = 0;     // of storages that data.pkl does not name
  StateDict::OddKeys odd_keys;
  std::vector<Problem> unloaded;  // what is in it that torch does not load: pickles (bare_pickle.h), bytes behind the last storage

  uint64_t memory_bytes() const;
};

// An item's value in the graph of its file (none for an empty mapping), and for a tensor, how to read its bytes.
struct TorchValue {
  Value value;
  ItemInfo info;
};

// All torch.save files of a catalog: one, or those of several ranks. resolve() takes the facts of items from here.
struct TorchFiles {
  std::vector<std::unique_ptr<const TorchFile>> files;  // by number in the catalog
  std::vector<TorchValue> items;                        // by ItemId
  std::vector<TorchValue> copies;                       // by number in Catalog::duplicates
  std::vector<int64_t> strides;                         // as in Resolved
  StateDict::OddKeys odd_keys;                          // of all files
};

// A byte item, or a tensor that is not plain, as its own pickle with the storages that it names. Throws pickle_storage_id, item_no_record,
// over_limit.
BlobItem blob_of(const TorchFile& file, const Value& value, const Place& place, const Limits& limits);

}  // namespace dcp
