#include "exec/dcp_folder.h"

#include <array>

#include "base/checked.h"
#include "base/sums.h"
#include "catalog/box.h"
#include "format/dcp_metadata_writer.h"
#include "format/torch_item_write.h"

namespace dcp {

DcpFolder::DcpFolder(std::vector<FolderTensor> tensors, std::vector<FolderChunk> chunks, uint32_t ranks)
    : tensors_(std::move(tensors)), chunks_(std::move(chunks)), rank_bytes_(ranks, 0) {
  for (uint32_t r = 0; r < ranks; ++r) names_.push_back("__" + std::to_string(r) + "_0.distcp");
  for (const FolderTensor& t : tensors_) tensor_bytes_ += volume(t.dims) * bytes_of(t.dtype);
  offsets_.reserve(chunks_.size());
  for (const FolderChunk& c : chunks_) {
    offsets_.push_back(rank_bytes_[c.rank]);
    rank_bytes_[c.rank] += item_of(c).length;
  }
  metadata_ = metadata();
  file_bytes_ = metadata_.size();
  for (const uint64_t bytes : rank_bytes_) file_bytes_ += bytes;
}

DcpFolder::Item DcpFolder::item_of(const FolderChunk& c) const {
  const DType dtype = tensors_[c.tensor].dtype;
  Item item{.pickle = tensor_item_pickle(dtype, c.sizes), .payload_bytes = volume(c.sizes) * bytes_of(dtype)};
  item.length = tensor_item_layout(item.pickle.size(), item.payload_bytes).total_bytes();
  return item;
}

std::string DcpFolder::metadata() const {
  std::string text;
  DcpMetadataStream out([&](std::string_view block) { text += block; });
  size_t c = 0;
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    out.tensor(tensors_[t].key, facts_of(tensors_[t].dtype).name, tensors_[t].requires_grad, tensors_[t].dims);
    for (; c < chunks_.size() && chunks_[c].tensor == t; ++c) out.chunk(chunks_[c].offsets, chunks_[c].sizes);
  }
  out.planner_data(true);
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    const std::string_view key = tensors_[t].key;
    std::vector<MetadataContent::PathElement> path;
    for (const std::string& name : tensors_[t].path) path.push_back({.name = name});
    if (const size_t dot = key.find('.'); path.empty()) {
      path.push_back({.name = key.substr(0, dot)});
      if (dot != std::string_view::npos) path.push_back({.name = key.substr(dot + 1)});
    }
    out.path(t, key, path);
  }
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
              .length = item_of(chunk).length});
  }
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
  const Item item = item_of(chunks_[chunk]);
  const uint32_t file = chunks_[chunk].rank;
  const TorchArchiveLayout layout = tensor_item_layout(item.pickle.size(), item.payload_bytes);
  Crc32Sum sum;
  uint64_t done = 0;
  payload(chunk, [&](Bytes bytes) {
    if (bytes.size() > item.payload_bytes - done) fail(ProblemId::internal, {.path = names_[file]}, "more bytes than the tensor has");
    sink.write(file, offsets_[chunk] + layout.payload(kItemData) + done, bytes);
    done += bytes.size();
    sum.add(crc32_raw(bytes), bytes.size(), item.payload_bytes - done);
  });
  if (done != item.payload_bytes)
    fail(ProblemId::internal, {.path = names_[file]}, std::to_string(done) + " bytes", std::to_string(item.payload_bytes));
  const std::array<std::string_view, 4> texts{item.pickle, kByteorderLittle, "", kArchiveVersion};
  std::array<uint32_t, 4> crcs{};
  for (uint64_t r = 0; r < texts.size(); ++r) {
    crcs[r] = r == kItemData ? sum.value(item.payload_bytes) : crc32(as_bytes(texts[r]));
    if (r != kItemData) sink.write(file, offsets_[chunk] + layout.payload(r), as_bytes(texts[r]));
  }
  layout.emit_frame(crcs, [&](uint64_t offset, Bytes bytes) { sink.write(file, offsets_[chunk] + offset, bytes); });
}

}  // namespace dcp
