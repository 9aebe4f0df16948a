// Writer of tensor items: the pickle and the positions of the records, before a byte of the tensor is known.
//
// The archive has data.pkl, byteorder, data/0, version, in torch's own form (torch_archive.h). torch 2.0 to 2.15 load it, dtypes
// permitting. The length of an item depends on the dtype and the sizes only.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "format/dtype.h"
#include "format/torch_archive.h"

namespace dcp {

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
