#include "catalog/torch_files.h"

#include <algorithm>

#include "pickle/graph_write.h"
#include "pickle/writer.h"

namespace dcp {

uint64_t TorchFile::memory_bytes() const {
  uint64_t bytes = archive.pickle.capacity() + archive.storages.capacity() * sizeof(BlobItem::Storage) + graph->memory_bytes();
  for (const BlobItem::Storage& s : archive.storages) bytes += s.key.capacity();
  return bytes;
}

BlobItem blob_of(const TorchFile& file, const Value& value, const Place& place, const Limits& limits) {
  if (value.kind == Kind::kUnset) {  // an empty mapping, whatever its class
    std::string pickle;
    PickleWriter writer(pickle, PickleProtocol::k2);
    writer.begin();
    writer.op(Op::EMPTY_DICT);
    writer.end();
    const Bytes bytes = as_bytes(pickle);
    return {.pickle = {bytes.begin(), bytes.end()}, .pickle_place = place, .storages = {}};
  }
  WrittenValue written = write_value(*file.graph, value, place, limits.blob_bytes);
  const Bytes pickle = as_bytes(written.pickle);
  BlobItem blob{.pickle = {pickle.begin(), pickle.end()},
                .pickle_place = file.archive.pickle_place,
                .storages = {},
                .big_endian = file.archive.big_endian};
  // The pickle is not that of the file, so its offsets mean nothing in the file.
  blob.pickle_place.offset.reset();
  blob.pickle_place.tensor = place.tensor;
  for (const std::string& key : written.storage_keys)
    if (const auto found = file.storages.find(key); found != file.storages.end()) blob.storages.push_back(*found->second);
  std::ranges::sort(blob.storages, {}, &BlobItem::Storage::payload);
  return blob;
}

}  // namespace dcp
