#include "catalog/open_torch.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "catalog/build.h"
#include "catalog/open_torch_ranks.h"
#include "catalog/torch_reader.h"
#include "pickle/graph_write.h"
#include "pickle/writer.h"

namespace dcp {

uint64_t TorchFile::memory_bytes() const {
  uint64_t bytes = archive.pickle.capacity() + archive.storages.capacity() * sizeof(BlobItem::Storage) + graph->memory_bytes();
  for (const BlobItem::Storage& s : archive.storages) bytes += s.key.capacity();
  return bytes;
}

uint64_t TorchFiles::memory_bytes() const {
  uint64_t bytes = (items.capacity() + copies.capacity()) * sizeof(TorchValue) + strides.capacity() * sizeof(int64_t);
  for (const auto& file : files) bytes += file->memory_bytes();
  return bytes;
}

OpenedCatalog open_torch_file(Store& store, const std::string& path, const OpenOptions& options) {
  const std::filesystem::path full(path);
  std::unique_ptr<TorchFile> file = read_torch_file(store, OpenFile(store, store.open_read(path)), path, options.limits);
  StateDict state(*file->graph, file->archive.pickle_place, options.limits);
  const std::string name = full.filename();
  auto torch = std::make_shared<TorchFiles>();
  torch->strides.push_back(0);
  const PartOf no_part = [&](const StateDict::Leaf& leaf) -> std::optional<TensorPart> {
    if (!is_one_ranks(leaf.tensor.cls)) return {};
    Problem p = make_problem(ProblemId::torch_rank_part, {.path = path}, leaf.tensor.cls);
    if (is_rank_file(name)) p.hint = "give the folder: the files of all ranks are one checkpoint";
    throw Error(std::move(p));
  };
  TorchContent read = read_state_dict(*file, {name, state}, no_part, torch->strides, options.limits);
  OpenedCatalog opened =
      build_catalog(read.content, path, full.parent_path().empty() ? "." : full.parent_path().string(), CheckpointKind::kTorch);
  Catalog& catalog = opened.catalog;
  catalog.provenance = {};
  catalog.single_file = true;
  catalog.files[0].raw = true;
  if (const auto& bad = file->graph->machine().bad_text())
    opened.unloadable.push_back(make_problem(ProblemId::pickle_unloadable, bad->place, bad->got, "UTF-8"));
  // Item numbers: tensors first, since each has one chunk, then byte items.
  for (const bool is_tensor : {true, false})
    std::ranges::copy_if(read.values, std::back_inserter(torch->items), [&](const TorchValue& v) { return v.info.resolved == is_tensor; });
  torch->odd_keys = file->odd_keys;
  torch->files.push_back(std::move(file));
  catalog.torch = std::move(torch);
  return opened;
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
  // The pickle is not the file's: its offsets mean nothing there.
  blob.pickle_place.offset.reset();
  blob.pickle_place.tensor = place.tensor;
  for (const std::string& key : written.storage_keys)
    if (const auto found = file.storages.find(key); found != file.storages.end()) blob.storages.push_back(*found->second);
  std::ranges::sort(blob.storages, {}, &BlobItem::Storage::payload);
  return blob;
}

}  // namespace dcp
