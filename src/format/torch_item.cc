// Reader of data.pkl of a tensor item, on the pickle machine: nothing is called, a tensor is what a call of torch's would build.
//
// Grammar (torch/_utils.py, torch/serialization.py; torch 1.13 to 2.15):
//   item      := tensor | parameter | other
//   tensor    := torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks[, flags])
//              | torch._utils._rebuild_tensor_v3(storage, offset, sizes, strides, requires_grad, hooks, dtype[, flags])
//   parameter := torch._utils._rebuild_parameter(tensor, requires_grad, hooks)
//   storage   := persistent id ("storage", class, key, location, count)
//   class     := torch.<Typed>Storage, count in its elements | torch.storage.UntypedStorage, count in bytes
//   flags     := {"conj": bool?, "neg": bool?}
//   other     := any other class or function: a tensor that is not plain
// Offsets and strides count elements of the tensor. `location`, `requires_grad` and `hooks` say nothing about the bytes.
#include "format/torch_item.h"

#include <span>

#include "base/checked.h"
#include "format/item_archive.h"
#include "pickle/machine.h"

namespace dcp {
namespace {

// Globals that are called; kStorage is what a persistent id becomes.
enum GlobalId : uint32_t { kTensorV2, kTensorV3, kParameter, kOrderedDict, kStorage };
// Globals that are named only.
enum TypedTag : uint16_t { kDType, kTypedStorage, kUntypedStorage };

// Keeps every call as an object, to be read from the root when the pickle is done. An unknown global is opaque; so is what it makes.
class ItemHandler {
 public:
  struct Name {
    std::string_view module, name;
  };

  Value global(PickleMachine&, std::string_view module, std::string_view name) {
    if (module == "torch._utils") {
      if (name == "_rebuild_tensor_v2") return function(kTensorV2);
      if (name == "_rebuild_tensor_v3") return function(kTensorV3);
      if (name == "_rebuild_parameter") return function(kParameter);
    } else if (module == "torch") {
      if (const auto dtype = dtype_of_storage_class(name)) return typed(kTypedStorage, *dtype);
      if (const auto dtype = dtype_named(name)) return typed(kDType, *dtype);
    } else if (module == "torch.storage" && name == "UntypedStorage") {
      return typed(kUntypedStorage, DType::uint8);
    } else if (module == "collections" && name == "OrderedDict") {
      return function(kOrderedDict);
    }
    names_.push_back({module, name});
    return {.kind = Kind::kOpaque, .n = narrow<uint32_t>(names_.size() - 1)};
  }
  Value reduce(PickleMachine& machine, const Value& callable, const Value& arguments) { return machine.object(callable, arguments); }
  Value new_object(PickleMachine& machine, const Value& cls, const Value& arguments, const Value&) {
    return machine.object(cls, arguments);
  }
  Value build(PickleMachine& machine, const Value& object, const Value& state) {
    if (object.kind == Kind::kObject) machine.set_state(object, state);
    return object;
  }
  Value persistent(PickleMachine& machine, const Value& id) { return machine.object(function(kStorage), id); }

  std::string name_of(const Value& opaque) const {
    const Name& name = names_[opaque.n];
    return std::string(name.module) + "." + std::string(name.name);
  }

 private:
  static Value function(GlobalId id) { return {.kind = Kind::kGlobal, .n = id}; }
  static Value typed(TypedTag tag, DType dtype) { return {.kind = Kind::kTyped, .tag = tag, .n = static_cast<uint32_t>(dtype)}; }
  std::vector<Name> names_;
};

struct Storage {
  std::string key;
  bool typed = false;
  DType dtype{};       // of a typed one
  uint64_t bytes = 0;  // as the pickle claims
};

// Reads the values of a finished machine. Only facts about the pickle are checked here, the archive's come after.
class TensorReader {
 public:
  TensorReader(const PickleMachine& machine, const ItemHandler& handler, const Limits& limits, const Place& place)
      : machine_(machine), handler_(handler), limits_(limits), place_(place) {}

  // Fills all but the archive's part; returns the storage, whose extent the tensor has been checked against.
  Storage read(Value root, TensorItem& item) const {
    while (is_call(root, kParameter)) root = argument(root, 0, 3, 3);
    if (root.kind == Kind::kOpaque) return set_opaque(item, handler_.name_of(root));
    const bool v3 = is_call(root, kTensorV3);
    if (!v3 && !is_call(root, kTensorV2)) fail(ProblemId::item_not_tensor, place_, machine_.describe(root), "a tensor");
    if (machine_.state_of(root).kind != Kind::kUnset) return set_opaque(item, "torch.Tensor with a state of its own");
    const uint32_t least = v3 ? 7 : 6, most = least + 1;
    const auto at = [&](uint32_t i) { return argument(root, i, least, most); };
    Storage storage = read_storage(at(0));
    item.storage_offset = static_cast<uint64_t>(natural(at(1), ProblemId::item_bad_shape, "an offset"));
    item.sizes = naturals(at(2), "sizes");
    item.strides = naturals(at(3), "strides");
    item.dtype = v3 ? read_dtype(at(6)) : typed_dtype(storage);
    if (arguments(root) == most) read_flags(at(most - 1), item);
    check_extent(item, storage);
    return storage;
  }

 private:
  static Storage set_opaque(TensorItem& item, std::string name) {
    item.form = ItemForm::kOpaque;
    item.opaque_class = std::move(name);
    return {};
  }

  // --- calls and their arguments
  bool is_call(const Value& v, GlobalId id) const {
    if (v.kind != Kind::kObject) return false;
    const Value callable = machine_.callable_of(v);
    return callable.kind == Kind::kGlobal && callable.n == id;
  }
  uint32_t arguments(const Value& call) const { return machine_.arguments_of(call).n; }
  Value argument(const Value& call, uint32_t i, uint32_t least, uint32_t most) const {
    const Value all = machine_.arguments_of(call);
    if (all.kind != Kind::kTuple || all.n < least || all.n > most) {
      fail(ProblemId::item_bad_tensor, place_, machine_.describe(all),
           "a tuple of " + std::to_string(least) + (least == most ? "" : " or " + std::to_string(most)) + " arguments");
    }
    return machine_.element(all, i);
  }
  int64_t natural(const Value& v, ProblemId id, std::string_view what) const {
    if (v.kind != Kind::kInt || v.integer() < 0) fail(id, place_, machine_.describe(v), std::string(what));
    return v.integer();
  }
  std::vector<int64_t> naturals(const Value& v, std::string_view what) const {
    if (v.kind != Kind::kTuple) fail(ProblemId::item_bad_tensor, place_, machine_.describe(v), "a tuple of " + std::string(what));
    if (v.n > limits_.tensor_rank) {
      fail(ProblemId::over_limit, place_, std::to_string(v.n) + " dims", "at most " + std::to_string(limits_.tensor_rank));
    }
    std::vector<int64_t> all(v.n);
    for (uint32_t i = 0; i < v.n; ++i) all[i] = natural(machine_.element(v, i), ProblemId::item_bad_shape, what);
    return all;
  }

  // --- the parts of a tensor
  Storage read_storage(const Value& v) const {
    if (!is_call(v, kStorage)) fail(ProblemId::item_bad_storage, place_, machine_.describe(v), "a persistent id");
    const Value id = machine_.arguments_of(v);
    if (id.kind != Kind::kTuple || id.n != 5 || !machine_.is_text(machine_.element(id, 0), "storage")) {
      fail(ProblemId::item_bad_storage, place_, machine_.describe(id), "('storage', class, key, location, count)");
    }
    const Value type = machine_.element(id, 1), key = machine_.element(id, 2);
    if (type.kind == Kind::kOpaque) fail(ProblemId::item_unknown_dtype, place_, handler_.name_of(type));
    if (type.kind != Kind::kTyped || type.tag == kDType) {
      fail(ProblemId::item_bad_storage, place_, machine_.describe(type), "a storage class");
    }
    if (key.kind != Kind::kText) fail(ProblemId::item_bad_storage, place_, machine_.describe(key), "a storage's key");
    const int64_t count = natural(machine_.element(id, 4), ProblemId::item_bad_storage, "a storage's size");
    Storage storage{.key = std::string(machine_.text(key)), .typed = type.tag == kTypedStorage, .dtype = static_cast<DType>(type.n)};
    storage.bytes = mul_or_fail(static_cast<uint64_t>(count), bytes_of(storage.dtype), place_);
    return storage;
  }
  DType typed_dtype(const Storage& storage) const {
    if (!storage.typed) fail(ProblemId::item_bad_storage, place_, "an untyped storage", "a typed one");
    return storage.dtype;
  }
  DType read_dtype(const Value& v) const {
    if (v.kind == Kind::kOpaque) fail(ProblemId::item_unknown_dtype, place_, handler_.name_of(v));
    if (v.kind != Kind::kTyped || v.tag != kDType) fail(ProblemId::item_bad_tensor, place_, machine_.describe(v), "a dtype");
    return static_cast<DType>(v.n);
  }
  void read_flags(const Value& v, TensorItem& item) const {
    if (v.kind == Kind::kNone) return;
    if (v.kind != Kind::kDict) fail(ProblemId::item_bad_tensor, place_, machine_.describe(v), "a dict of flags");
    PickleMachine::Items items = machine_.items(v);
    for (Value key, value; items.next(key) && items.next(value);) {
      if (value.kind != Kind::kBool) fail(ProblemId::item_bad_tensor, place_, machine_.describe(value), "a flag that is true or false");
      if (machine_.is_text(key, "conj"))
        item.conj = value.payload != 0;
      else if (machine_.is_text(key, "neg"))
        item.neg = value.payload != 0;
      else
        fail(ProblemId::item_bad_tensor, place_, machine_.describe(key), "the flags conj and neg");
    }
    const DTypeKind kind = facts_of(item.dtype).kind;
    const bool is_number = kind == DTypeKind::kFloat || kind == DTypeKind::kInt || kind == DTypeKind::kComplex;
    if ((item.conj && kind != DTypeKind::kComplex) || (item.neg && !is_number)) {
      fail(ProblemId::item_bad_tensor, place_, std::string(item.conj ? "conj" : "neg") + " of " + std::string(facts_of(item.dtype).name));
    }
  }

  // offset + sum((size - 1) * stride) < elements of the storage, in arithmetic that cannot wrap. An empty tensor touches nothing.
  void check_extent(const TensorItem& item, const Storage& storage) const {
    if (item.sizes.size() != item.strides.size()) {
      fail(ProblemId::item_bad_shape, place_, std::to_string(item.strides.size()) + " strides", std::to_string(item.sizes.size()));
    }
    const uint64_t capacity = storage.bytes / bytes_of(item.dtype);
    uint64_t elements = 1, last = item.storage_offset;
    for (const int64_t size : item.sizes) elements = size == 0 ? 0 : elements;
    if (elements != 0) {
      for (size_t d = 0; d < item.sizes.size(); ++d) {
        const auto size = static_cast<uint64_t>(item.sizes[d]), stride = static_cast<uint64_t>(item.strides[d]);
        elements = mul_or_fail(elements, size, place_);
        last = add_or_fail(last, mul_or_fail(size - 1, stride, place_), place_);
      }
    }
    mul_or_fail(elements, bytes_of(item.dtype), place_);
    if (elements == 0 ? last <= capacity : last < capacity) return;
    fail(ProblemId::item_outside_storage, place_, (elements == 0 ? "an empty tensor at element " : "element ") + std::to_string(last),
         "less than " + std::to_string(capacity));
  }

  const PickleMachine& machine_;
  const ItemHandler& handler_;
  const Limits& limits_;
  const Place& place_;
};

// The archive's part: where the storage's bytes are, and that they are all there.
void find_storage(ItemSource& source, const ItemArchive& archive, const Storage& storage, TensorItem& item, const Place& place) {
  const ZipRecord& record = stored_record(archive.directory, "data/" + storage.key, place);
  item.payload = payload_of(source, archive.directory, record, place);
  item.record_bytes = record.size;
  item.crc = record.crc;
  item.has_crc = has_crc(record);
  if (record.size >= storage.bytes) return;
  Place here = at_offset(place, item.payload);
  here.member = record.name;
  fail(ProblemId::item_short_storage, std::move(here), std::to_string(record.size) + " bytes", std::to_string(storage.bytes));
}

// A safetensors file has no end record: say what it is rather than what it is not.
ItemArchive open_archive(ItemSource& source, const Place& place, const Limits& limits) {
  try {
    return open_item_archive(source, place, limits);
  } catch (const Error& e) {
    const bool may_be = e.problem().id == ProblemId::zip_no_end && source.size() >= kSafetensorsHeadBytes;
    if (may_be && looks_like_safetensors(source.at(0, kSafetensorsHeadBytes))) fail(ProblemId::item_is_safetensors, place);
    throw;
  }
}

}  // namespace

TensorItem read_tensor_item(ItemSource& source, const Place& place, const Limits& limits) {
  const ItemArchive archive = open_archive(source, place, limits);
  const ItemPickle pickle = read_item_pickle(source, archive.directory, limits.item_pickle_bytes, place);
  PickleMachine machine(pickle.bytes, pickle.place, limits);
  ItemHandler handler;
  const Value root = machine.run(handler);
  TensorItem item;
  item.big_endian = archive.big_endian;
  const Storage storage = TensorReader(machine, handler, limits, pickle.place).read(root, item);
  if (item.form == ItemForm::kStrided) find_storage(source, archive, storage, item, place);
  return item;
}

}  // namespace dcp
