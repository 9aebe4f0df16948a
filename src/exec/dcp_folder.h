// Writes a DCP folder of tensors that the caller provides: items with their frames and CRCs, `.metadata` last. For checkpoints that are not
// made from another one: those have a plan (plan/dcp_layout.h).
#pragma once

#include <cstdint>
#include <functional>
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

struct FolderOptions {
  Replace replace = Replace::kNo;
  bool sync = true;
  unsigned workers = 1;
};

class DcpFolder {
 public:
  // Chunks are in the order of their tensors; the items of a file follow that order.
  DcpFolder(std::vector<FolderTensor> tensors, std::vector<FolderChunk> chunks, uint32_t ranks);

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
  void write_metadata(Sink& sink) const;

 private:
  struct Item {
    std::string pickle;
    uint64_t length = 0, payload_bytes = 0;
  };
  Item item_of(const FolderChunk& chunk) const;
  std::string metadata() const;
  void write_item(size_t chunk, Sink& sink, const Payload& payload) const;

  std::vector<FolderTensor> tensors_;
  std::vector<FolderChunk> chunks_;
  std::vector<std::string> names_;  // of files, by rank
  std::vector<uint64_t> rank_bytes_;
  std::vector<uint64_t> offsets_;  // of items in their files
  std::string metadata_;
  uint64_t tensor_bytes_ = 0, file_bytes_ = 0;
};

}  // namespace dcp
