// Writer of tensor items: what the pickle says and where the records lie, before a byte of the tensor is known.
//
// Archive: data.pkl, byteorder, data/0, version, in torch's own form (torch_archive.h). Loads in torch 2.0 to 2.15, dtypes permitting.
// The length of an item depends on the dtype and the sizes only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "format/dtype.h"
#include "format/torch_archive.h"

namespace dcp {

// Records of an item, in order: their numbers in the layout.
enum TensorItemRecord : uint64_t { kItemPickle, kItemByteorder, kItemData, kItemVersion };

inline constexpr std::string_view kByteorderLittle = "little";
inline constexpr std::string_view kArchiveVersion = "3\n";

// The pickle of a row-major tensor on the CPU with storage "0" of its own: _rebuild_tensor_v2 where the dtype has a typed storage class,
// else _rebuild_tensor_v3. Protocol 2, only opcodes that torch.load(weights_only=True) takes. Throws number_overflow. Not for quantized
// dtypes, which have no such form.
std::string tensor_item_pickle(DType dtype, std::span<const int64_t> sizes);

TorchArchiveLayout tensor_item_layout(uint64_t pickle_bytes, uint64_t payload_bytes);

}  // namespace dcp
