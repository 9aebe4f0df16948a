// Reader of data.pkl of a tensor item, on the pickle machine: nothing is called, a tensor is what a call of torch's would build.
//
// Grammar (tensor, parameter: torch_tensor.h):
//   item  := tensor | parameter | other
//   other := any other class or function: a tensor that is not plain
#include "format/torch_item.h"

#include "base/checked.h"
#include "format/item_archive.h"
#include "format/torch_tensor.h"
#include "pickle/machine.h"

namespace dcp {
namespace {

// Keeps every call as an object, to be read from the root when the pickle is done. Functions are kGlobal, dtypes and classes of storages
// kTyped. Any other global is opaque; so is what it makes.
class ItemHandler : public TorchNames {
 public:
  using Means = TorchGlobal::Kind;
  struct Name {
    std::string_view module, name;
  };

  Value global(PickleMachine&, std::string_view module, std::string_view name) {
    const TorchGlobal g = torch_global(module, name);
    switch (g.kind) {
      case Means::kTensorV2:
      case Means::kTensorV3:
      case Means::kParameter:
      case Means::kOrderedDict: return function(g.kind);
      case Means::kTypedStorage:
      case Means::kUntypedStorage:
      case Means::kDType: return {.kind = Kind::kTyped, .tag = static_cast<uint16_t>(g.kind), .n = static_cast<uint32_t>(g.dtype)};
      default: break;
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
  Value persistent(PickleMachine& machine, const Value& id) { return machine.object(function(Means::kStorage), id); }

  TorchGlobal meaning(const Value& v) const override {
    if (v.kind == Kind::kGlobal) return {static_cast<Means>(v.n), {}};
    if (v.kind == Kind::kTyped) return {static_cast<Means>(v.tag), static_cast<DType>(v.n)};
    return {};
  }
  std::string name_of(const Value& v) const override {
    if (v.kind != Kind::kOpaque) return {};
    return std::string(names_[v.n].module) + "." + std::string(names_[v.n].name);
  }

 private:
  static Value function(Means m) { return {.kind = Kind::kGlobal, .n = static_cast<uint32_t>(m)}; }
  std::vector<Name> names_;
};

TorchStorage set_opaque(TensorItem& item, std::string name) {
  item.form = ItemForm::kOpaque;
  item.opaque_class = std::move(name);
  return {};
}

TorchStorage read_root(const PickleMachine& machine, const ItemHandler& names, Value root, TensorItem& item, const Limits& limits, const Place& place) {
  const TensorReader reader(machine, names, limits, place);
  while (reader.call_of(root) == TorchGlobal::Kind::kParameter) root = reader.argument(machine.arguments_of(root), 0, 3, 3);
  if (root.kind == Kind::kOpaque) return set_opaque(item, names.name_of(root));
  const TorchGlobal::Kind call = reader.call_of(root);
  if (call != TorchGlobal::Kind::kTensorV2 && call != TorchGlobal::Kind::kTensorV3) fail(ProblemId::item_not_tensor, place, machine.describe(root), "a tensor");
  if (machine.state_of(root).kind != Kind::kUnset) return set_opaque(item, "torch.Tensor with a state of its own");
  return reader.read(call, machine.arguments_of(root), item);
}

// The archive's part: where the storage's bytes are, and that they are all there.
void find_storage(ItemSource& source, const ItemArchive& archive, const TorchStorage& storage, TensorItem& item, const Place& place) {
  const ZipRecord& record = readable_record(archive.directory, "data/" + storage.key, place);
  item.payload = payload_of(source, archive.directory, record, place);
  item.record_bytes = record.size;
  item.packed = record.deflated() ? record.packed : 0;
  item.crc = record.crc;
  item.has_crc = has_crc(record);
  check_record(storage, record.size, item.payload, place);
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
  const ItemPickle pickle = read_item_pickle(source, archive.directory, limits.item_pickle_bytes, limits, place);
  PickleMachine machine(pickle.bytes, pickle.place, limits);
  ItemHandler handler;
  const Value root = machine.run(handler);
  TensorItem item;
  item.big_endian = archive.big_endian;
  const TorchStorage storage = read_root(machine, handler, root, item, limits, pickle.place);
  if (item.form == ItemForm::kStrided) find_storage(source, archive, storage, item, place);
  return item;
}

}  // namespace dcp
