#include "format/torch_tensor.h"

#include <algorithm>

#include "base/checked.h"
#include "format/item_archive.h"
#include "pickle/tokens.h"

namespace dcp {

using Means = TorchGlobal::Kind;

TorchGlobal torch_global(std::string_view module, std::string_view name) {
  struct Known {
    std::string_view module, name;
    Means kind;
  };
  constexpr Known kKnown[] = {{"torch._utils", "_rebuild_tensor", Means::kTensorV1},
                              {"torch._utils", "_rebuild_tensor_v2", Means::kTensorV2},
                              {"torch._utils", "_rebuild_tensor_v3", Means::kTensorV3},
                              {"torch._utils", "_rebuild_parameter", Means::kParameter},
                              {"torch._utils", "_rebuild_parameter_with_state", Means::kParameterWithState},
                              {"torch._utils", "_rebuild_qtensor", Means::kQuantized},
                              {"torch._utils", "_rebuild_sparse_tensor", Means::kSparse},
                              {"torch._utils", "_rebuild_meta_tensor_no_storage", Means::kMeta},
                              {"torch._utils", "_rebuild_wrapper_subclass", Means::kWrapper},
                              {"torch._tensor", "_rebuild_from_type_v2", Means::kFromType},
                              {"torch", "Size", Means::kSize},
                              {"torch", "Tensor", Means::kTensorClass},
                              {"torch.nn.parameter", "Parameter", Means::kTensorClass},
                              {"torch.nn.parameter", "Buffer", Means::kTensorClass},
                              {"torch.storage", "UntypedStorage", Means::kUntypedStorage},
                              {"collections", "OrderedDict", Means::kOrderedDict}};
  for (const Known& k : kKnown)
    if (k.module == module && k.name == name) return {k.kind, DType::uint8};
  if (module != "torch") return {};
  if (const auto dtype = dtype_of_storage_class(name)) return {Means::kTypedStorage, *dtype};
  if (const auto dtype = dtype_named(name)) return {Means::kDType, *dtype};
  return {};
}

bool makes_tensor(std::string_view global) {
  const bool torchs_own = global.starts_with("torch.") && global.find_last_of('.') == 5;  // torch.Tensor, torch.FloatTensor
  return global.starts_with("torch._utils._rebuild_") || global.starts_with("torch._tensor._rebuild_from_type") ||
         global == "torch.nn.parameter.Parameter" || (torchs_own && global.ends_with("Tensor"));
}

TorchGlobal GraphNames::meaning(const Value& v) const {
  if (v.kind != Kind::kGlobal) return {};
  const auto [module, name] = graph_.global(v);
  if (module.empty() && name.empty()) return {.kind = Means::kStorage};
  return torch_global(module, name);
}

// --- calls and their arguments

TorchGlobal::Kind TensorReader::call_of(const Value& v) const {
  if (v.kind != Kind::kObject) return Means::kOther;
  return names_.meaning(machine_.callable_of(v)).kind;
}

Value TensorReader::argument(const Value& all, uint32_t i, uint32_t min, uint32_t max) const {
  if (all.kind != Kind::kTuple || all.n < min || all.n > max) {
    fail(ProblemId::item_bad_tensor, place_, machine_.describe(all),
         "a tuple of " + std::to_string(min) + (min == max ? "" : " or " + std::to_string(max)) + " arguments");
  }
  return machine_.element(all, i);
}

int64_t TensorReader::natural(const Value& v, ProblemId id, std::string_view what) const {
  if (v.kind != Kind::kInt || v.integer() < 0) fail(id, place_, machine_.describe(v), std::string(what));
  return v.integer();
}

std::vector<int64_t> TensorReader::naturals(const Value& v, std::string_view what) const {
  if (v.kind != Kind::kTuple) fail(ProblemId::item_bad_tensor, place_, machine_.describe(v), "a tuple of " + std::string(what));
  if (v.n > limits_.tensor_rank) {
    fail(ProblemId::over_limit, place_, std::to_string(v.n) + " dims", "at most " + std::to_string(limits_.tensor_rank));
  }
  std::vector<int64_t> all(v.n);
  for (uint32_t i = 0; i < v.n; ++i) all[i] = natural(machine_.element(v, i), ProblemId::item_bad_shape, what);
  return all;
}

// --- wrappers

// Whether the value names a storage, in the parts that the machine's handler has kept; true if it is too large to search.
bool TensorReader::holds_tensor(const Value& v, uint32_t& left) const {
  if (left == 0) return true;
  --left;
  const auto any_in = [&](const Value& container) {
    for (const Value& inner : machine_.items(container))
      if (holds_tensor(inner, left)) return true;
    return false;
  };
  if (v.kind != Kind::kObject) return any_in(v);
  return call_of(v) == Means::kStorage || holds_tensor(machine_.arguments_of(v), left) || holds_tensor(machine_.state_of(v), left) ||
         any_in(v);
}

TensorReader::Wrapped TensorReader::wrapped(const Value& v) const {
  if (call_of(v) != Means::kFromType) return {};
  const Value all = machine_.arguments_of(v);
  if (all.kind != Kind::kTuple || all.n != 4 || names_.meaning(machine_.element(all, 0)).kind != Means::kWrapper) return {};
  Wrapped out{.tensor = {}, .cls = names_.name_of(machine_.element(all, 1))};
  if (out.cls.starts_with("torch.distributed.")) return {};  // a DTensor holds only a part
  Value state = machine_.element(all, 3);
  if (state.kind == Kind::kTuple && state.n == 2) state = machine_.element(state, 0);  // (state, slots)
  if (state.kind != Kind::kDict) return {};
  constexpr uint32_t kVisits = 1000;
  uint32_t left = kVisits;
  Value name, value, inner;
  for (auto it = machine_.items(state); it.next(name) && it.next(value);) {
    if (value.kind == Kind::kFloat) return {};
    if (!holds_tensor(value, left)) continue;
    ++out.tensors;
    if (machine_.is_text(name, "_precomputed_scale")) continue;
    if (inner.kind != Kind::kUnset) return {};
    inner = value;
  }
  try {
    if (call_of(inner) == Means::kParameter) inner = argument(machine_.arguments_of(inner), 0, 3, 3);
    const Means call = call_of(inner);
    TensorItem outer, plain;
    if ((call != Means::kTensorV2 && call != Means::kTensorV3) || !read_opaque(Means::kWrapper, machine_.element(all, 2), outer)) return {};
    read(call, machine_.arguments_of(inner), plain);
    if (outer.dtype == plain.dtype && outer.sizes == plain.sizes) out.tensor = inner;
  } catch (const Error&) {  // only its class can tell
  }
  return out;
}

// --- the parts of a tensor

TorchStorage TensorReader::read(TorchGlobal::Kind function, const Value& arguments, TensorItem& item) const {
  const bool v1 = function == Means::kTensorV1, v3 = function == Means::kTensorV3;
  const uint32_t min = v1 ? 4 : v3 ? 7 : 6, max = v1 ? min : min + 1;
  const auto at = [&](uint32_t i) { return argument(arguments, i, min, max); };
  TorchStorage storage = read_view(arguments, min, max, item);
  item.dtype = v3 ? read_dtype(at(6)) : typed_dtype(storage);
  if (!v1) read_grad(at(4), item.dtype);
  if (!v1 && arguments.n == max) read_flags(at(max - 1), item);
  check_extent(item, storage);
  return storage;
}

void TensorReader::read_grad(const Value& grad, DType dtype) const {
  if (grad.kind != Kind::kBool) fail(ProblemId::item_bad_tensor, place_, machine_.describe(grad), "True or False for requires_grad");
  const DTypeKind kind = facts_of(dtype).kind;
  if (grad.payload != 0 && kind != DTypeKind::kFloat && kind != DTypeKind::kComplex)
    fail(ProblemId::item_bad_tensor, place_, "requires_grad of " + std::string(facts_of(dtype).name), "a floating-point or complex dtype");
}

// Reads the arguments with which all calls for a tensor with a storage begin.
TorchStorage TensorReader::read_view(const Value& arguments, uint32_t min, uint32_t max, TensorItem& item) const {
  TorchStorage storage = read_storage(argument(arguments, 0, min, max));
  item.storage_offset = static_cast<uint64_t>(natural(argument(arguments, 1, min, max), ProblemId::item_bad_shape, "an offset"));
  item.sizes = naturals(argument(arguments, 2, min, max), "sizes");
  item.strides = naturals(argument(arguments, 3, min, max), "strides");
  return storage;
}

void TensorReader::check_inside(TorchGlobal::Kind function, const Value& arguments) const {
  if (!makes_plain(function)) return;
  if (arguments.kind != Kind::kTuple || arguments.n == 0 || call_of(machine_.element(arguments, 0)) != Means::kStorage) return;
  try {
    TensorItem tensor;
    read(function, arguments, tensor);
  } catch (const Error& e) {
    const ProblemId id = e.problem().id;
    if (id == ProblemId::item_outside_storage || id == ProblemId::item_bad_shape || id == ProblemId::number_overflow) throw;
  }
}

bool TensorReader::read_opaque(TorchGlobal::Kind function, const Value& arguments, TensorItem& item) const {
  item.form = ItemForm::kOpaque;
  switch (function) {
    case Means::kTensorV1:
    case Means::kTensorV2:
    case Means::kTensorV3: read(function, arguments, item); return true;
    case Means::kQuantized: {
      const TorchStorage storage = read_view(arguments, 7, 7, item);
      item.dtype = typed_dtype(storage);
      // In these dtypes, one element of the storage holds several of the tensor.
      if (item.dtype != DType::quint4x2 && item.dtype != DType::quint2x4) check_extent(item, storage);
      return true;
    }
    case Means::kMeta:
      item.dtype = read_dtype(argument(arguments, 0, 4, 4));
      item.sizes = naturals(sizes_in(argument(arguments, 1, 4, 4)), "sizes");
      return true;
    case Means::kWrapper: {
      // For a tensor without sizes of its own (a nested one) they are symbols.
      const Value sizes = sizes_in(argument(arguments, 2, 8, 8));
      if (sizes.kind != Kind::kTuple) return false;
      item.dtype = read_dtype(argument(arguments, 1, 8, 8));
      item.sizes = naturals(sizes, "sizes");
      return true;
    }
    case Means::kSparse: {
      const Value data = argument(arguments, 1, 2, 2);
      for (uint32_t i = 1; data.kind == Kind::kTuple && i < data.n; ++i) {
        const Value values = machine_.element(data, i - 1), sizes = sizes_in(machine_.element(data, i));
        const TorchGlobal::Kind call = call_of(values);
        if (sizes.kind != Kind::kTuple || !makes_plain(call)) continue;
        TensorItem of_values;
        read(call, machine_.arguments_of(values), of_values);
        item.dtype = of_values.dtype;
        item.sizes = naturals(sizes, "sizes");
        return true;
      }
      return false;
    }
    default: return false;
  }
}

// The tuple itself, or the one that torch.Size is called with.
Value TensorReader::sizes_in(const Value& v) const {
  if (call_of(v) != Means::kSize) return v;
  const Value arguments = machine_.arguments_of(v);
  return arguments.kind == Kind::kTuple && arguments.n == 1 ? machine_.element(arguments, 0) : v;
}

TorchStorage TensorReader::read_storage(const Value& v) const {
  if (call_of(v) != Means::kStorage) fail(ProblemId::item_bad_storage, place_, machine_.describe(v), "a persistent id");
  return storage(machine_.arguments_of(v));
}

bool TensorReader::names_storage(const Value& id) const {
  if (id.kind != Kind::kTuple || id.n != 5 || !machine_.is_text(machine_.element(id, 0), "storage")) return false;
  const Means cls = names_.meaning(machine_.element(id, 1)).kind;
  return cls == Means::kTypedStorage || cls == Means::kUntypedStorage;
}

TorchStorage TensorReader::storage(const Value& id) const {
  if (id.kind != Kind::kTuple || id.n != 5 || !machine_.is_text(machine_.element(id, 0), "storage")) {
    fail(ProblemId::item_bad_storage, place_, machine_.describe(id), "('storage', class, key, location, count)");
  }
  const Value type = machine_.element(id, 1), key = machine_.element(id, 2);
  const TorchGlobal cls = names_.meaning(type);
  if (cls.kind != Means::kTypedStorage && cls.kind != Means::kUntypedStorage) {
    const std::string name = names_.name_of(type);
    if (!name.empty() && cls.kind == Means::kOther) fail(ProblemId::item_unknown_dtype, place_, name);
    fail(ProblemId::item_bad_storage, place_, machine_.describe(type), "a storage class");
  }
  if (key.kind != Kind::kText) fail(ProblemId::item_bad_storage, place_, machine_.describe(key), "a storage's key");
  const int64_t count = natural(machine_.element(id, 4), ProblemId::item_bad_storage, "a storage's size");
  TorchStorage storage{.key = std::string(machine_.text(key)), .typed = cls.kind == Means::kTypedStorage, .dtype = cls.dtype};
  storage.bytes = mul_or_fail(static_cast<uint64_t>(count), bytes_of(storage.dtype), place_);
  return storage;
}

DType TensorReader::typed_dtype(const TorchStorage& storage) const {
  if (!storage.typed) fail(ProblemId::item_bad_storage, place_, "an untyped storage", "a typed one");
  return storage.dtype;
}

DType TensorReader::read_dtype(const Value& v) const {
  const TorchGlobal global = names_.meaning(v);
  if (global.kind == Means::kDType) return global.dtype;
  const std::string name = names_.name_of(v);
  if (!name.empty() && global.kind == Means::kOther) fail(ProblemId::item_unknown_dtype, place_, name);
  fail(ProblemId::item_bad_tensor, place_, machine_.describe(v), "a dtype");
}

void TensorReader::read_flags(const Value& v, TensorItem& item) const {
  if (v.kind == Kind::kNil) return;
  if (v.kind != Kind::kDict) fail(ProblemId::item_bad_tensor, place_, machine_.describe(v), "a dict of flags");
  PickleMachine::Items items = machine_.items(v);
  for (Value key, value; items.next(key) && items.next(value);) {
    if (value.kind != Kind::kBool) fail(ProblemId::item_bad_tensor, place_, machine_.describe(value), "a flag that is true or false");
    // torch sets a flag that is present, whatever its value.
    if (machine_.is_text(key, "conj")) item.conj = true;
    else if (machine_.is_text(key, "neg")) item.neg = true;
    else fail(ProblemId::item_bad_tensor, place_, machine_.describe(key), "the flags conj and neg");
  }
  const DTypeKind kind = facts_of(item.dtype).kind;
  const bool is_number = kind == DTypeKind::kFloat || kind == DTypeKind::kInt || kind == DTypeKind::kComplex;
  if ((item.conj && kind != DTypeKind::kComplex) || (item.neg && !is_number)) {
    fail(ProblemId::item_bad_tensor, place_, std::string(item.conj ? "conj" : "neg") + " of " + std::string(facts_of(item.dtype).name));
  }
}

// offset + sum((size - 1) * stride) < elements of the storage, in arithmetic that cannot wrap. A tensor without elements touches nothing:
// torch keeps the offset and strides of the original view, whatever the storage holds.
void TensorReader::check_extent(const TensorItem& item, const TorchStorage& storage) const {
  if (item.sizes.size() != item.strides.size()) {
    fail(ProblemId::item_bad_shape, place_, std::to_string(item.strides.size()) + " strides", std::to_string(item.sizes.size()));
  }
  if (is_empty(item)) return;
  uint64_t elements = 1, last = item.storage_offset;
  for (size_t d = 0; d < item.sizes.size(); ++d) {
    const auto size = static_cast<uint64_t>(item.sizes[d]), stride = static_cast<uint64_t>(item.strides[d]);
    elements = mul_or_fail(elements, size, place_);
    last = add_or_fail(last, mul_or_fail(size - 1, stride, place_), place_);
  }
  mul_or_fail(elements, bytes_of(item.dtype), place_);
  const uint64_t capacity = storage.bytes / bytes_of(item.dtype);
  if (last >= capacity)
    fail(ProblemId::item_outside_storage, place_, "element " + std::to_string(last), "less than " + std::to_string(capacity));
}

bool is_empty(const TensorItem& item) { return std::ranges::find(item.sizes, 0) != item.sizes.end(); }

// Strides of dims of size 1 mean nothing.
bool is_dense(const TensorItem& item) {
  if (is_empty(item)) return true;
  uint64_t stride = 1;
  for (size_t d = item.sizes.size(); d-- > 0;) {
    if (item.sizes[d] != 1 && static_cast<uint64_t>(item.strides[d]) != stride) return false;
    stride *= static_cast<uint64_t>(item.sizes[d]);
  }
  return item.storage_offset == 0;
}

void check_record(const TorchStorage& storage, uint64_t record_bytes, uint64_t payload, const Place& place) {
  if (record_bytes == storage.bytes) return;
  Place here = at_offset(place, payload);
  here.member = "data/" + storage.key;
  const ProblemId id = record_bytes < storage.bytes ? ProblemId::item_short_storage : ProblemId::item_long_storage;
  fail(id, std::move(here), std::to_string(record_bytes) + " bytes", std::to_string(storage.bytes));
}

StorageRecords::StorageRecords(ItemSource& item, const ZipDirectory& directory, const Place& place)
    : item_(item), directory_(directory), place_(place) {
  for (const ZipRecord& r : directory.records) records_.emplace(r.name, &r);
}

void StorageRecords::check(const TorchStorage& storage) {
  const std::string name = "data/" + storage.key;
  const auto found = records_.find(name);
  const ZipRecord& record = found == records_.end() ? readable_record(directory_, name, place_) : *found->second;  // which throws
  check_method(record, place_);
  if (record.size != storage.bytes) check_record(storage, record.size, payload_of(item_, directory_, record, place_), place_);
}

}  // namespace dcp
