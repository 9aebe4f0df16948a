// Writer of `.metadata`, in the form that every torch from 2.3 to 2.15 loads, or, with older module names of TensorProperties, every torch
// from 2.0 to 2.15.
//
// Form: protocol 4; TensorProperties of 5 fields (6 would need torch 2.15); the memory format by call; storage_meta None (an object needs
// torch 2.4 and would hold a path); version "1.0.0"; transform_descriptors only where an item has some. Repeated texts and classes go
// through the memo, numbers do not: about 100 bytes a 2-D chunk.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/dcp_metadata.h"

namespace dcp {

// Writes from front to back during the calls, and keeps 8 bytes per key, so metadata of 10^7 chunks is never held in memory.
//
// Calls, in this order: for each key tensor() with its chunk()s, or blob(); planner_data(), then path() for each key that has one;
// storage(), then item() for each; finish(). Keys are numbered from 0 in the order of the first part.
class DcpMetadataStream {
 public:
  using Sink = std::function<void(std::string_view)>;
  // Passes the file to `sink` in blocks of about 64 KiB, valid only during the call. `for_torch`: the oldest release that is to load it,
  // 200 (2.0) or later.
  explicit DcpMetadataStream(Sink sink, unsigned for_torch = 203);
  ~DcpMetadataStream();

  // `dtype_name` must stay valid.
  void tensor(std::string_view key, std::string_view dtype_name, bool requires_grad, std::span<const int64_t> dims);
  void chunk(std::span<const int64_t> offsets, std::span<const int64_t> sizes);
  void blob(std::string_view key);

  void planner_data(bool there_is);
  void path(uint32_t number, std::string_view key, std::span<const MetadataContent::PathElement> path);

  void storage();
  struct Item {
    uint32_t key_number = 0;
    std::string_view key;
    std::optional<std::span<const int64_t>> offsets;  // of the chunk; nullopt: a byte item
    std::optional<uint64_t> index;                    // of the chunk among its tensor's: a hint
    uint32_t file_number = 0;
    std::string_view file;
    uint64_t offset = 0;  // bytes
    uint64_t length = 0;  // bytes
    std::span<const std::string_view> transforms{};
  };
  void item(const Item& item);

  // An attribute of Metadata that torch does not know. A value is a run of opcodes that pushes one value and uses no memo.
  struct Attribute {
    std::string_view name;
    std::string_view value;                                                // unless is_dict
    std::vector<std::pair<std::string_view, std::string_view>> entries{};  // of a dict: key and value
    bool is_dict = false;
  };
  void finish(std::span<const Attribute> attributes = {});

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

// Uses these members of `content`: order, tensors, chunks, blobs, storage, files, transforms, has_planner_data with paths. Throws
// metadata_field for a layout other than strided.
void write_dcp_metadata(const MetadataContent& content, const std::function<void(std::string_view)>& sink);
std::string write_dcp_metadata(const MetadataContent& content);

}  // namespace dcp
