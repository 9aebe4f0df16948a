// What a torch pickle says about one tensor: the call that would rebuild it, which is read and checked but never made. Used for data.pkl of
// an item and of a whole torch.save file.
//
// Grammar (torch/_utils.py, torch/_tensor.py, torch/serialization.py; torch 0.2 to 2.15):
//   tensor    := torch._utils._rebuild_tensor(storage, offset, sizes, strides)   (before torch 0.4)
//              | torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks[, flags])
//              | torch._utils._rebuild_tensor_v3(storage, offset, sizes, strides, requires_grad, hooks, dtype[, flags])
//   parameter := torch._utils._rebuild_parameter(tensor, requires_grad, hooks)
//   storage   := persistent id ("storage", class, key, location, count)
//   class     := torch.<Typed>Storage, count in its elements | torch.storage.UntypedStorage, count in bytes
//   flags     := {"conj": bool?, "neg": bool?}
// Offsets and strides count elements of the tensor. `location` and `hooks` say nothing about the bytes.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/problem.h"
#include "format/torch_item.h"
#include "pickle/graph.h"
#include "pickle/machine.h"

namespace dcp {

// The meaning of a global to torch.
struct TorchGlobal {
  enum class Kind : uint8_t {
    kOther,
    kTensorV1,
    kTensorV2,
    kTensorV3,
    kParameter,
    kParameterWithState,  // torch._utils._rebuild_parameter_with_state(tensor, requires_grad, hooks, state)
    kFromType,            // torch._tensor._rebuild_from_type_v2(function, class, arguments, state)
    kQuantized,           // torch._utils._rebuild_qtensor(storage, offset, sizes, strides, quantizer, requires_grad, hooks)
    kSparse,              // torch._utils._rebuild_sparse_tensor(layout, (indices..., values, sizes[, coalesced]))
    kMeta,                // torch._utils._rebuild_meta_tensor_no_storage(dtype, sizes, strides, requires_grad)
    kWrapper,             // torch._utils._rebuild_wrapper_subclass(class, dtype, sizes, strides, offset, layout, device, requires_grad)
    kSize,                // torch.Size(sizes)
    kTensorClass,         // torch.Tensor, torch.nn.parameter.Parameter: classes without bytes of their own
    kOrderedDict,
    kStorage,  // the value of a persistent id
    kTypedStorage,
    kUntypedStorage,
    kDType,
  };
  Kind kind = Kind::kOther;
  DType dtype{};  // of kTypedStorage, kDType
};
TorchGlobal torch_global(std::string_view module, std::string_view name);
// Whether calling it makes a plain tensor.
constexpr bool makes_plain(TorchGlobal::Kind k) {
  return k == TorchGlobal::Kind::kTensorV1 || k == TorchGlobal::Kind::kTensorV2 || k == TorchGlobal::Kind::kTensorV3;
}
// Whether calling this global ("torch._utils._rebuild_qtensor") makes a tensor, plain or not.
bool makes_tensor(std::string_view global);

// How a machine's handler stored the result of torch_global().
class TorchNames {
 public:
  virtual ~TorchNames() = default;
  virtual TorchGlobal meaning(const Value& v) const = 0;  // kOther if it is not a global
  virtual std::string name_of(const Value& v) const = 0;  // "module.name" of a global, or of the callable of an opaque value
};

// What a graph's globals mean to torch.
class GraphNames : public TorchNames {
 public:
  explicit GraphNames(const PickleGraph& graph) : graph_(graph) {}
  TorchGlobal meaning(const Value& v) const override;
  std::string name_of(const Value& v) const override { return graph_.global_of(v); }

 private:
  const PickleGraph& graph_;
};

// Reads the values of a finished machine. Checks only facts about the pickle; the archive's are checked later.
class TensorReader {
 public:
  TensorReader(const PickleMachine& machine, const TorchNames& names, const Limits& limits, const Place& place)
      : machine_(machine), names_(names), limits_(limits), place_(place) {}

  const PickleMachine& machine() const { return machine_; }
  const Place& place() const { return place_; }
  // The function that `v` is a call of; kOther: not a call, or of something else.
  TorchGlobal::Kind call_of(const Value& v) const;
  // One of a call's arguments, of which there must be `min` to `max`.
  Value argument(const Value& arguments, uint32_t i, uint32_t min, uint32_t max) const;
  // For a function that makes_plain(): fills in all but the archive's part, and returns the storage, after checking that the tensor lies
  // within it.
  TorchStorage read(TorchGlobal::Kind function, const Value& arguments, TensorItem& item) const;
  // Checks that a plain tensor somewhere in an object lies within its storage. Throws item_outside_storage, item_bad_shape,
  // number_overflow. Anything else about it, and calls of other functions, are left to the object's class.
  void check_inside(TorchGlobal::Kind function, const Value& arguments) const;
  // Whether a persistent id is torch's and of a known class. If so, storage() reads it.
  bool names_storage(const Value& id) const;
  TorchStorage storage(const Value& id) const;
  // The plain tensor inside a tensor of another class, if it has the same dtype and sizes and the class holds no number that might scale
  // it. For torchao's WeightWithDynamicFloat8CastTensor and similar classes, which only say how a plain weight is used, it holds the
  // values.
  struct Wrapped {
    Value tensor;          // kUnset: this is no such wrapper
    uint32_t tensors = 0;  // in the wrapper, including those that only cache values computed from this one
    std::string cls{};     // "module.Class"
  };
  Wrapped wrapped(const Value& v) const;
  // For a tensor that is not plain: reads dtype and sizes only; the rest is up to its class. Returns false if the call does not give them.
  bool read_opaque(TorchGlobal::Kind function, const Value& arguments, TensorItem& item) const;

 private:
  bool holds_tensor(const Value& v, uint32_t& left) const;
  int64_t natural(const Value& v, ProblemId id, std::string_view what) const;
  Value sizes_in(const Value& v) const;
  std::vector<int64_t> naturals(const Value& v, std::string_view what) const;
  TorchStorage read_view(const Value& arguments, uint32_t min, uint32_t max, TensorItem& item) const;
  TorchStorage read_storage(const Value& v) const;
  DType typed_dtype(const TorchStorage& storage) const;
  DType read_dtype(const Value& v) const;
  void read_grad(const Value& grad, DType dtype) const;
  void read_flags(const Value& v, TensorItem& item) const;
  void check_extent(const TensorItem& item, const TorchStorage& storage) const;

  const PickleMachine& machine_;
  const TorchNames& names_;
  const Limits& limits_;
  const Place& place_;
};

// The archive's part: checks that the storage's record is as long as the storage, as torch does. Throws item_short_storage,
// item_long_storage.
void check_record(const TorchStorage& storage, uint64_t record_bytes, uint64_t payload, const Place& place);
// The same for storages that an item's pickle names. Its arguments must outlive it.
class StorageRecords {
 public:
  StorageRecords(ItemSource& item, const ZipDirectory& directory, const Place& place);
  void check(const TorchStorage& storage);  // throws item_no_record and item_compressed, too

 private:
  ItemSource& item_;
  const ZipDirectory& directory_;
  const Place& place_;
  std::unordered_map<std::string_view, const ZipRecord*> records_;  // by name
};

}  // namespace dcp
