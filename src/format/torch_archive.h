// Layout and writer of a torch.save archive whose payloads are written by other code, in any order: positions first, CRCs last.
//
// Form (as torch writes it, zip64 rules included): records stored; local header with flags 0x0808 and zero CRC and sizes; an `FB`
// padding extra so that every payload starts at a multiple of 64; payload; data descriptor; central directory; zip64 end record,
// locator, end record. `.format_version` and `.storage_alignment` are left out: a reader of the development branch computes offsets
// from them. Source: caffe2/serialize/inline_container.cc of torch 2.1 to 2.15.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/members.h"
#include "format/dtype.h"

namespace dcp {

class TorchArchiveLayout {
 public:
  static constexpr uint64_t kAlignment = 64;

  // `root`: the folder of all records; "": none, as in a .npz file.
  explicit TorchArchiveLayout(std::string root = "archive") : root_(std::move(root)) {}

  // Appends a record (`name` without the root folder, at most 65,000 bytes); returns the position of its payload in the archive. The total
  // size is known after the last add().
  uint64_t add(std::string_view name, uint64_t payload_bytes);

  uint64_t record_count() const { return records_.size(); }
  uint64_t payload(uint64_t record) const { return records_[record].payload; }
  uint64_t payload_bytes(uint64_t record) const { return records_[record].bytes; }
  uint64_t total_bytes() const;                  // the whole archive, end record included
  uint64_t entry_crc_at(uint64_t record) const;  // position of its CRC in the central directory

  // Everything that is not payload: for each record the bytes before it (descriptor of the one before, local header, padding), then the
  // tail. `crcs[i]` is the CRC-32 of record i's payload. `emit(offset, bytes)` is called in ascending order of offset; bytes are valid only
  // during the call.
  void emit_frame(std::span<const uint32_t> crcs, const std::function<void(uint64_t offset, Bytes bytes)>& emit) const;

  bool operator==(const TorchArchiveLayout&) const = default;

 private:
  struct Record {
    std::string name;
    uint64_t header = 0;
    uint64_t payload = 0;
    uint64_t bytes = 0;
    bool operator==(const Record&) const = default;
  };
  std::string before(uint64_t i, std::span<const uint32_t> crcs) const;
  std::string entry(uint64_t i, uint32_t crc) const;
  std::string tail() const;

  std::string root_;
  std::vector<Record> records_;
  uint64_t end_ = 0;              // after the last record's descriptor
  uint64_t directory_bytes_ = 0;  // of the central directory

  DCP_FRIEND_MEMBERS(Record, name, header, payload, bytes);
  DCP_FRIEND_MEMBERS(TorchArchiveLayout, root, records, end, directory_bytes);
};

// A tensor item: the pickle and the positions of the records, before a byte of the tensor is known. Its archive has data.pkl, byteorder,
// data/0, version. torch 2.0 to 2.15 load it, dtypes permitting. The length of an item depends on the dtype and the sizes only.

// Records of an item, in order: their numbers in the layout.
enum TensorItemRecord : uint64_t { kItemPickle, kItemByteorder, kItemData, kItemVersion };

inline constexpr std::string_view kByteorderLittle = "little";
inline constexpr std::string_view kArchiveVersion = "3\n";

// Computes strides as torch does: a dim of 0 counts as 1. Throws number_overflow.
std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes);

// The pickle of a row-major tensor on the CPU with its own storage "0": _rebuild_tensor_v2 if the dtype has a typed storage class, else
// _rebuild_tensor_v3. It is of protocol 2 and has only opcodes that torch.load(weights_only=True) accepts. Throws number_overflow. Not for
// quantized dtypes, which have no such form.
std::string tensor_item_pickle(DType dtype, std::span<const int64_t> sizes);

TorchArchiveLayout tensor_item_layout(uint64_t pickle_bytes, uint64_t payload_bytes);

// All of an item but its payload. Only two fields of it depend on the tensor's data: the payload's CRC, twice in the tail.
class TensorItemFrame {
 public:
  TensorItemFrame(DType dtype, std::span<const int64_t> sizes);
  Bytes head() const { return as_bytes(head_); }               // before the payload
  uint64_t tail_bytes() const { return tail_.size(); }         // after it
  void write_tail(uint32_t payload_crc, std::byte* to) const;  // writes tail_bytes() bytes

 private:
  std::string head_, tail_;
  std::array<size_t, 2> crc_at_{};  // in tail_
  size_t crc_count_ = 0;
};

// The most recently used frames: neighbours in a checkpoint have the same sizes.
class TensorItemFrames {
 public:
  // Valid until the next call.
  const TensorItemFrame& of(DType dtype, std::span<const int64_t> sizes);

 private:
  static constexpr size_t kKept = 4;  // corner, edges and inside of a grid
  struct Known {
    DType dtype{};
    std::vector<int64_t> sizes;
    TensorItemFrame frame;
  };
  std::vector<Known> known_;
  size_t next_ = 0;
};

}  // namespace dcp
