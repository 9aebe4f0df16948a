// One item of a DCP checkpoint: a complete torch.save archive (a zip of stored records) inside a slice of a file.
//
// Grammar (torch/serialization.py, caffe2/serialize/inline_container.cc; torch 1.13 to 2.15):
//   archive: local records back to back, central directory, zip64 end record, zip64 locator, end record
//   records: ROOT/data.pkl, ROOT/byteorder?, ROOT/data/KEY..., ROOT/version, ROOT/.data/serialization_id?, others ignored
//   payload position of a record = header offset + 30 + name length + extra length, all from the *local* header
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/dtype.h"
#include "format/item_archive.h"

namespace dcp {

// A storage, as a persistent id names it.
struct TorchStorage {
  std::string key;
  bool typed = false;
  DType dtype{};       // of a typed one
  uint64_t bytes = 0;  // as the pickle claims
};

enum class ItemForm : uint8_t {
  kStrided,  // a plain strided tensor: every field below holds
  kOpaque,   // a tensor, but not a plain one (quantized, wrapper subclass): copied, never resliced
};

// The content of a tensor item's data.pkl, checked: shapes are non-negative, strides and offset lie inside the storage, and the storage is
// as long as its record.
struct TensorItem {
  ItemForm form = ItemForm::kStrided;
  DType dtype{};
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // elements
  uint64_t storage_offset = 0;   // elements
  bool conj = false;
  bool neg = false;
  bool big_endian = false;
  uint64_t payload = 0;       // position of the storage's record in the item
  uint64_t record_bytes = 0;  // size of the storage's record
  uint64_t packed = 0;        // bytes of the record in the item if it is deflated, else 0
  uint32_t crc = 0;
  bool has_crc = false;              // false: the writer computed none (0 with a non-empty payload whose true CRC may differ)
  Place pickle_end;                  // after the STOP of data.pkl
  uint64_t trailing_bytes = 0;       // that follow there
  bool described = true;             // false for a kOpaque whose dtype and sizes only its class knows
  std::string subclass;              // what made it, if no plain call did: "torchao.dtypes.Float8Tensor", "torch._utils._rebuild_qtensor"
  std::vector<std::string> refused;  // of a subclass: globals that dcp.load refuses unless the program allows them
};
// Whether it has no elements. Its offset and strides, which torch keeps from the original view, are then meaningless.
bool is_empty(const TensorItem& item);
// Whether the elements are contiguous from the start of the storage.
bool is_dense(const TensorItem& item);
// Throws item_not_tensor if torch would not make a tensor from it, and item_refused if dcp.load, which reads tensors with
// weights_only=True, refuses its pickle whatever the program allows.
TensorItem read_tensor_item(ItemSource& item, const Place& place, const Limits& limits);

}  // namespace dcp
