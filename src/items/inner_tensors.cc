#include "items/inner_tensors.h"

#include "base/checked.h"
#include "catalog/catalog.h"

namespace dcp {

const BlobItem::Storage& OpenObject::storage(const std::string& key) const {
  if (const auto found = storages.find(key); found != storages.end()) return *found->second;
  Place place = blob.item.pickle_place;
  place.offset.reset();
  place.member = "data/" + key;
  fail(ProblemId::item_no_record, place);
}

InnerTensors::InnerTensors(const Catalog& from, const Limits& limits)
    : from_(from), limits_(limits), catalog_(catalog_over_files_of(from)) {
  resolved_.strides.push_back(0);
}

TensorId InnerTensors::add(const OpenObject& object, const StateDict::Leaf& leaf, std::string_view key) {
  const BlobItem& archive = object.blob.item;
  Place place = archive.pickle_place;
  place.tensor = key;
  place.object = false;
  TensorItem t;
  const TorchStorage storage =
      TensorReader(object.graph.machine(), object.state.names(), limits_, place).read(leaf.tensor.kind, leaf.tensor.arguments, t);
  const BlobItem::Storage& record = object.storage(storage.key);
  check_record(storage, record.bytes, record.payload, place);

  const Item& whole = from_.items[object.item];
  const uint64_t dims_at = catalog_.numbers.size();
  catalog_.numbers.insert(catalog_.numbers.end(), t.sizes.begin(), t.sizes.end());
  const uint64_t boxes_at = catalog_.numbers.size();
  catalog_.numbers.insert(catalog_.numbers.end(), t.sizes.size(), 0);
  catalog_.numbers.insert(catalog_.numbers.end(), t.sizes.begin(), t.sizes.end());
  ItemInfo info{.record = record.payload,
                .record_bytes = record.bytes,
                .crc = record.crc,
                .dtype = t.dtype,
                .resolved = true,
                .has_crc = record.has_crc,
                .swap = archive.big_endian && swap_unit(t.dtype) > 1,
                .conj = t.conj,
                .neg = t.neg};
  if (!is_dense(t)) {
    info.strides_at = resolved_.strides.size();
    resolved_.strides.push_back(narrow<int64_t>(t.storage_offset));
    resolved_.strides.insert(resolved_.strides.end(), t.strides.begin(), t.strides.end());
  }
  const auto id = narrow<TensorId>(catalog_.tensors.size());
  catalog_.order.push_back(KeyRef::tensor_at(id));
  catalog_.tensors.push_back({.key = catalog_.strings.intern(key),
                              .dtype_name = catalog_.strings.intern(facts_of(t.dtype).name),
                              .dtype = t.dtype,
                              .rank = narrow<uint8_t>(t.sizes.size()),
                              .dims_at = dims_at,
                              .boxes_at = boxes_at,
                              .first_chunk = narrow<uint32_t>(catalog_.items.size()),
                              .chunk_count = 1});
  catalog_.items.push_back(record.packed != 0 ? Item::deflated(record.payload, record.packed, whole.file) : whole);
  resolved_.items.push_back(info);
  return id;
}

}  // namespace dcp
