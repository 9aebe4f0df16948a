// Writes a DCP folder of tensors that the caller provides: items with their frames and CRCs, `.metadata` last. For checkpoints that are not
// made from another one: those have a plan (plan/dcp_layout.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/workers.h"
#include "files/file_set.h"
#include "files/sink.h"
#include "format/dtype.h"

namespace dcp {

struct FolderTensor {
  std::string key;
  DType dtype{};
  std::vector<int64_t> dims;
  bool requires_grad = true;
  std::vector<std::string> path = {};  // in the state dict; empty: the key split at its first dot, ("model", "layers.0.weight")
};

// A box of a tensor, one item in rank R's file `__R_0.distcp`.
struct FolderChunk {
  uint32_t tensor = 0;
  uint32_t rank = 0;
  std::vector<int64_t> offsets, sizes;
};

// An object, whose item is a file of torch.save.
struct FolderObject {
  std::string key;
  std::vector<std::string> path = {};  // as above
  uint32_t rank = 0;
  uint64_t bytes = 0;
};

// Where an item goes.
struct ItemTarget {
  Sink& sink;
  uint32_t file = 0;
  uint64_t offset = 0;
  std::string name{};  // of the file, for messages
};
// A tensor's item: its bytes in all; and all of it, with the payload that `payload` passes on from front to back.
uint64_t tensor_item_bytes(DType dtype, std::span<const int64_t> sizes);
void write_tensor_item(const ItemTarget& to, DType dtype, std::span<const int64_t> sizes,
                       const std::function<void(const std::function<void(Bytes)>& emit)>& payload);

struct FolderOptions {
  Replace replace = Replace::kNo;
  bool sync = true;
  unsigned workers = 1;
};

class DcpFolder {
 public:
  // Chunks are in the order of their tensors; the items of a file follow that order.
  DcpFolder(std::vector<FolderTensor> tensors, std::vector<FolderChunk> chunks, uint32_t ranks, std::vector<FolderObject> objects = {});

  uint64_t tensor_bytes() const { return tensor_bytes_; }
  uint64_t file_bytes() const { return file_bytes_; }
  uint64_t items() const { return chunks_.size(); }

  // Passes the row-major bytes of a chunk to `emit` from front to back, in blocks. Called from several threads.
  using Emit = std::function<void(Bytes)>;
  using Payload = std::function<void(size_t chunk, const Emit& emit)>;
  // Creates the folder `out`, committed whole, and returns its id. Throws what FileSet and `payload` throw, and `interrupted`.
  FileId write(Io& io, const std::string& out, const FolderOptions& options, const StopFlag& stop, const Payload& payload) const;

  // The same in steps, for ranks that write together: the files, by rank with `.metadata` last; the items of one rank, which go to its file
  // of the sink; and the metadata.
  std::vector<FileSpec> files() const;
  void write_items(uint32_t rank, Sink& sink, unsigned workers, const StopFlag& stop, const Payload& payload) const;
  void write_object(size_t object, Sink& sink, Bytes bytes) const { sink.write(objects_[object].rank, object_offsets_[object], bytes); }
  void write_metadata(Sink& sink) const;

 private:
  uint64_t item_bytes(const FolderChunk& chunk) const { return tensor_item_bytes(tensors_[chunk.tensor].dtype, chunk.sizes); }
  std::string metadata() const;
  void write_item(size_t chunk, Sink& sink, const Payload& payload) const;

  std::vector<FolderTensor> tensors_;
  std::vector<FolderChunk> chunks_;
  std::vector<FolderObject> objects_;
  std::vector<std::string> names_;  // of files, by rank
  std::vector<uint64_t> rank_bytes_;
  std::vector<uint64_t> offsets_, object_offsets_;  // of items in their files
  std::string metadata_;
  uint64_t tensor_bytes_ = 0, file_bytes_ = 0;
};

}  // namespace dcp
