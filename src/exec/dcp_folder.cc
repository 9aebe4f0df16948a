#include "exec/dcp_folder.h"

#include <array>

#include "base/checked.h"
#include "base/sums.h"
#include "catalog/box.h"
#include "catalog/data_files.h"
#include "format/dcp_metadata_writer.h"
#include "format/torch_archive.h"

namespace dcp {

uint64_t tensor_item_bytes(DType dtype, std::span<const int64_t> sizes) {
  return tensor_item_layout(tensor_item_pickle(dtype, sizes).size(), volume(sizes) * bytes_of(dtype)).total_bytes();
}

DcpFolder::DcpFolder(std::vector<FolderTensor> tensors, std::vector<FolderChunk> chunks, uint32_t ranks, std::vector<FolderObject> objects)
    : tensors_(std::move(tensors)), chunks_(std::move(chunks)), objects_(std::move(objects)), rank_bytes_(ranks, 0) {
  for (uint32_t r = 0; r < ranks; ++r) names_.push_back(file_of_rank(r));
  for (const FolderTensor& t : tensors_) tensor_bytes_ += volume(t.dims) * bytes_of(t.dtype);
  offsets_.reserve(chunks_.size());
  for (const FolderChunk& c : chunks_) {
    offsets_.push_back(rank_bytes_[c.rank]);
    rank_bytes_[c.rank] += item_bytes(c);
  }
  for (const FolderObject& o : objects_) {
    object_offsets_.push_back(rank_bytes_[o.rank]);
    rank_bytes_[o.rank] += o.bytes;
  }
  metadata_ = metadata();
  file_bytes_ = metadata_.size();
  for (const uint64_t bytes : rank_bytes_) file_bytes_ += bytes;
}

std::string DcpFolder::metadata() const {
  std::string text;
  DcpMetadataStream out([&](std::string_view block) { text += block; });
  size_t c = 0;
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    out.tensor(tensors_[t].key, facts_of(tensors_[t].dtype).name, tensors_[t].requires_grad, tensors_[t].dims);
    for (; c < chunks_.size() && chunks_[c].tensor == t; ++c) out.chunk(chunks_[c].offsets, chunks_[c].sizes);
  }
  for (const FolderObject& o : objects_) out.blob(o.key);
  out.planner_data(true);
  uint32_t number = 0;
  const auto add_path = [&](std::string_view key, const std::vector<std::string>& names) {
    std::vector<MetadataContent::PathElement> path;
    for (const std::string& name : names) path.push_back({.name = name});
    if (const size_t dot = key.find('.'); path.empty()) {
      path.push_back({.name = key.substr(0, dot)});
      if (dot != std::string_view::npos) path.push_back({.name = key.substr(dot + 1)});
    }
    out.path(number++, key, path);
  };
  for (const FolderTensor& t : tensors_) add_path(t.key, t.path);
  for (const FolderObject& o : objects_) add_path(o.key, o.path);
  out.storage();
  uint64_t index = 0;
  for (c = 0; c < chunks_.size(); ++c) {
    const FolderChunk& chunk = chunks_[c];
    index = c > 0 && chunks_[c - 1].tensor == chunk.tensor ? index + 1 : 0;
    out.item({.key_number = chunk.tensor,
              .key = tensors_[chunk.tensor].key,
              .offsets = chunk.offsets,
              .index = index,
              .file_number = chunk.rank,
              .file = names_[chunk.rank],
              .offset = offsets_[c],
              .length = item_bytes(chunk)});
  }
  for (size_t o = 0; o < objects_.size(); ++o)
    out.item({.key_number = static_cast<uint32_t>(tensors_.size() + o),
              .key = objects_[o].key,
              .offsets = std::nullopt,
              .index = std::nullopt,
              .file_number = objects_[o].rank,
              .file = names_[objects_[o].rank],
              .offset = object_offsets_[o],
              .length = objects_[o].bytes});
  out.finish();
  return text;
}

std::vector<FileSpec> DcpFolder::files() const {
  std::vector<FileSpec> specs;
  for (size_t r = 0; r < names_.size(); ++r) specs.push_back({names_[r], rank_bytes_[r]});
  specs.push_back({".metadata", metadata_.size()});
  return specs;
}

FileId DcpFolder::write(Io& io, const std::string& out, const FolderOptions& options, const StopFlag& stop, const Payload& payload) const {
  FileSet sink(io, out, files(), {.folder = true, .replace = options.replace, .sync = options.sync});
  parallel_for(options.workers, chunks_.size(), stop, [&](unsigned, uint64_t chunk) { write_item(chunk, sink, payload); });
  write_metadata(sink);
  sink.finish();
  sink.commit();
  return sink.folder_id();
}

void DcpFolder::write_items(uint32_t rank, Sink& sink, unsigned workers, const StopFlag& stop, const Payload& payload) const {
  std::vector<size_t> own;
  for (size_t c = 0; c < chunks_.size(); ++c)
    if (chunks_[c].rank == rank) own.push_back(c);
  parallel_for(workers, own.size(), stop, [&](unsigned, uint64_t n) { write_item(own[n], sink, payload); });
}

void DcpFolder::write_metadata(Sink& sink) const { sink.write(narrow<uint32_t>(names_.size()), 0, as_bytes(metadata_)); }

void DcpFolder::write_item(size_t chunk, Sink& sink, const Payload& payload) const {
  const FolderChunk& c = chunks_[chunk];
  write_tensor_item({.sink = sink, .file = c.rank, .offset = offsets_[chunk], .name = names_[c.rank]}, tensors_[c.tensor].dtype, c.sizes,
                    [&](const Emit& emit) { payload(chunk, emit); });
}

void write_tensor_item(const ItemTarget& to, DType dtype, std::span<const int64_t> sizes,
                       const std::function<void(const std::function<void(Bytes)>& emit)>& payload) {
  const std::string pickle = tensor_item_pickle(dtype, sizes);
  const uint64_t payload_bytes = volume(sizes) * bytes_of(dtype);
  const TorchArchiveLayout layout = tensor_item_layout(pickle.size(), payload_bytes);
  Crc32Sum sum;
  uint64_t done = 0;
  payload([&](Bytes bytes) {
    if (bytes.size() > payload_bytes - done) fail(ProblemId::internal, {.path = to.name}, "more bytes than the tensor has");
    to.sink.write(to.file, to.offset + layout.payload(kItemData) + done, bytes);
    done += bytes.size();
    sum.add(crc32_raw(bytes), bytes.size(), payload_bytes - done);
  });
  if (done != payload_bytes) fail(ProblemId::internal, {.path = to.name}, std::to_string(done) + " bytes", std::to_string(payload_bytes));
  const std::array<std::string_view, 4> texts{pickle, kByteorderLittle, "", kArchiveVersion};
  std::array<uint32_t, 4> crcs{};
  for (uint64_t r = 0; r < texts.size(); ++r) {
    crcs[r] = r == kItemData ? sum.value(payload_bytes) : crc32(as_bytes(texts[r]));
    if (r != kItemData) to.sink.write(to.file, to.offset + layout.payload(r), as_bytes(texts[r]));
  }
  layout.emit_frame(crcs, [&](uint64_t offset, Bytes bytes) { to.sink.write(to.file, to.offset + offset, bytes); });
}

}  // namespace dcp
