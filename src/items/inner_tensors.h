// Tensors inside Python objects: dicts with tensors, as dcp.save without flatten_state_dict writes them, or lists of them. They become a
// catalog of their own, so that they are read like all tensors.
#pragma once

#include "catalog/catalog.h"
#include "catalog/state_dict.h"
#include "items/resolve.h"

namespace dcp {

// One object, whose pickle has been read.
struct OpenObject {
  OpenObject(const ResolvedBlob& resolved, ItemId of_item, const Limits& limits)
      : item(of_item),
        blob(resolved),
        graph(blob.item.pickle, blob.item.pickle_place, limits),
        state(graph, blob.item.pickle_place, limits),
        storages(by_key(blob.item)) {}
  // Throws item_no_record.
  const BlobItem::Storage& storage(const std::string& key) const;

  ItemId item;
  const ResolvedBlob& blob;
  PickleGraph graph;
  StateDict state;
  StoragesByKey storages;
};

class InnerTensors {
 public:
  // Files and their names are those of `from`, so files opened for it serve this catalog too. The arguments must outlive this object.
  InnerTensors(const Catalog& from, const Limits& limits);

  // Adds a leaf of the object, which must be a plain tensor, under this key. Throws what reading a tensor's call throws, item_no_record.
  TensorId add(const OpenObject& object, const StateDict::Leaf& leaf, std::string_view key);
  // Call when all tensors are added.
  void end() { catalog_.chunk_total = static_cast<uint32_t>(catalog_.items.size()); }

  const Catalog& catalog() const { return catalog_; }
  const Resolved& resolved() const { return resolved_; }

 private:
  const Catalog& from_;
  const Limits& limits_;
  Catalog catalog_;
  Resolved resolved_;
};

}  // namespace dcp
