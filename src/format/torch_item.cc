// Reader of data.pkl of a tensor item, on the pickle machine. Nothing is called: it works out which tensor torch's call would build.
//
// Grammar (tensor, parameter: torch_tensor.h):
//   item  := tensor | parameter | other
//   other := a call of another function or class that weights_only allows and that makes a tensor, one that is not plain
#include "format/torch_item.h"

#include <map>
#include <optional>

#include "base/checked.h"
#include "format/item_archive.h"
#include "format/safetensors.h"
#include "format/torch_tensor.h"
#include "pickle/machine.h"
#include "pickle/weights_only.h"

namespace dcp {
namespace {

// Keeps every call as an object, to be read from the root once the pickle ends. Functions that make tensors are kGlobal, dtypes and classes
// of storages kTyped. Any other global is opaque, and so is what it makes.
class ItemHandler : public TorchNames {
 public:
  using Means = TorchGlobal::Kind;

  Value global(PickleMachine& machine, std::string_view module, std::string_view name) {
    const TorchGlobal g = torch_global(module, name);
    if (g.kind == Means::kTypedStorage || g.kind == Means::kUntypedStorage || g.kind == Means::kDType)
      return {.kind = Kind::kTyped, .tag = static_cast<uint16_t>(g.kind), .n = static_cast<uint32_t>(g.dtype)};
    const auto [found, is_new] = numbers_.try_emplace({module, name}, static_cast<uint32_t>(names_.size()));
    if (is_new) {
      if (names_.size() > kMaxNames) fail(ProblemId::over_limit, machine.place(), "more classes and functions", std::to_string(kMaxNames));
      Name& met = names_.emplace_back(Name{.text = std::string(module) + "." + std::string(name), .means = g.kind});
      met.is_allowed = weights_only_allows(met.text);
      met.is_known = g.kind != Means::kOther || (met.is_allowed && makes_tensor(met.text));
    }
    return {.kind = names_[found->second].is_known ? Kind::kGlobal : Kind::kOpaque, .n = found->second};
  }
  Value reduce(PickleMachine& machine, const Value& callable, const Value& arguments) { return machine.object(callable, arguments); }
  Value new_object(PickleMachine& machine, const Value& cls, const Value& arguments, const Value&) {
    return machine.object(cls, arguments);
  }
  Value build(PickleMachine& machine, const Value& object, const Value& state) {
    if (object.kind == Kind::kObject) machine.set_state(object, state);
    return object;
  }
  Value persistent(PickleMachine& machine, const Value& id) {
    if (id.kind == Kind::kTuple && id.n > 0) ids_.push_back(id);
    return machine.object({.kind = Kind::kGlobal, .n = kStorage}, id);
  }
  void refused(PickleMachine& machine, Op op) {
    if (!refused_opcode_) refused_opcode_ = {machine.place(), std::string(op_name(op))};
  }

  TorchGlobal meaning(const Value& v) const override {
    if (v.kind == Kind::kGlobal) return {names_[v.n].means, {}};
    if (v.kind == Kind::kTyped) return {static_cast<Means>(v.tag), static_cast<DType>(v.n)};
    return {};
  }
  std::string name_of(const Value& v) const override {
    return v.kind == Kind::kOpaque || (v.kind == Kind::kGlobal && v.n != kStorage) ? names_[v.n].text : std::string();
  }

  const std::vector<Value>& persistent_ids() const { return ids_; }

  // The first opcode that weights_only does not know.
  struct RefusedOpcode {
    Place place;
    std::string name;
  };
  const std::optional<RefusedOpcode>& refused_opcode() const { return refused_opcode_; }

  // Globals that weights_only refuses.
  std::vector<std::string> refused_globals() const {
    std::vector<std::string> texts;
    for (const Name& n : names_)
      if (!n.is_allowed) texts.push_back(n.text);
    return texts;
  }

 private:
  struct Name {
    std::string text;
    Means means = Means::kOther;
    bool is_allowed = true;
    bool is_known = true;
  };
  static constexpr uint32_t kStorage = 0;
  static constexpr size_t kMaxNames = 4096;  // of one item: a subclass made of subclasses has about ten
  std::vector<Name> names_{{.text = {}, .means = Means::kStorage}};
  std::map<std::pair<std::string_view, std::string_view>, uint32_t> numbers_;
  std::vector<Value> ids_;  // persistent ones
  std::optional<RefusedOpcode> refused_opcode_;
};

using Means = TorchGlobal::Kind;

// Calling a tensor class with sizes gives uninitialized memory. And a tensor made by torch's own calls gets no state but another storage.
void check_works(const TensorReader& reader, const std::string& name, Value root) {
  const Value state = reader.machine().state_of(root);
  if (name.starts_with("torch.") && name.rfind('.') == 5) fail(ProblemId::item_not_tensor, reader.place(), name, "a tensor");
  for (const Means call : {Means::kTensorV1, Means::kTensorV2, Means::kTensorV3, Means::kQuantized, Means::kSparse, Means::kMeta})
    if (reader.call_of(root) == call && state.kind != Kind::kUnset)
      fail(ProblemId::item_bad_tensor, reader.place(), "a state: " + reader.machine().describe(state), "none");
}

// Describes a tensor that is not plain. A class may call torch's functions with arguments that only it understands.
bool describe(const TensorReader& reader, const ItemHandler& names, Value root, TensorItem& item) {
  const PickleMachine& machine = reader.machine();
  while (reader.call_of(root) == Means::kParameterWithState) root = reader.argument(machine.arguments_of(root), 0, 4, 4);
  Means call = reader.call_of(root);
  if (call == Means::kOther) return false;
  Value arguments = machine.arguments_of(root);
  bool of_class = call == Means::kWrapper;
  if (call == Means::kFromType) {
    of_class = names.meaning(reader.argument(arguments, 1, 4, 4)).kind != Means::kTensorClass;
    call = names.meaning(machine.element(arguments, 0)).kind;
    arguments = machine.element(arguments, 2);
  }
  try {
    return reader.read_opaque(call, arguments, item);
  } catch (const Error&) {
    if (!of_class) throw;
    return false;
  }
}

// The class of a tensor that is not plain, or the function that makes it if the class is torch's own.
std::string class_of(const TensorReader& reader, const ItemHandler& names, const Value& root) {
  const PickleMachine& machine = reader.machine();
  const Value all = machine.arguments_of(root);
  const bool of_class = reader.call_of(root) == Means::kFromType && all.kind == Kind::kTuple && all.n == 4;
  return names.name_of(of_class ? machine.element(all, 1) : machine.callable_of(root));
}

constexpr const char* kTaken = "what torch.load(weights_only=True) takes";

TorchStorage read_root(const TensorReader& reader, const ItemHandler& names, Value root, TensorItem& item) {
  const PickleMachine& machine = reader.machine();
  while (reader.call_of(root) == Means::kParameter) root = reader.argument(machine.arguments_of(root), 0, 3, 3);
  const Value callable = root.kind == Kind::kObject ? machine.callable_of(root) : Value{};
  const std::string name = names.name_of(callable.kind == Kind::kGlobal ? callable : root);
  if (callable.kind != Kind::kGlobal || !makes_tensor(name))
    fail(ProblemId::item_not_tensor, reader.place(), name.empty() ? machine.describe(root) : name, "a tensor");
  check_works(reader, name, root);
  const Means call = reader.call_of(root);
  const bool plain = makes_plain(call);
  TorchStorage storage;
  if (plain) storage = reader.read(call, machine.arguments_of(root), item);
  item.refused = names.refused_globals();
  for (const std::string& global : item.refused)
    if (plain || weights_only_blocks(global)) fail(ProblemId::item_refused, reader.place(), global, kTaken);
  if (const auto& odd = names.refused_opcode()) fail(ProblemId::item_refused, odd->place, "the opcode " + odd->name, kTaken);
  if (plain) return storage;
  item.subclass = class_of(reader, names, root);
  if (const auto inner = reader.wrapped(root); inner.tensor.kind != Kind::kUnset && inner.tensors == names.persistent_ids().size())
    return reader.read(reader.call_of(inner.tensor), machine.arguments_of(inner.tensor), item);
  item.described = describe(reader, names, root, item);
  item.form = ItemForm::kOpaque;
  return {};
}

// The archive's part: finds the storage's bytes, and checks that all of them exist.
void find_storage(ItemSource& source, const ItemArchive& archive, const TorchStorage& storage, TensorItem& item, const Place& place) {
  const ZipRecord& record = readable_record(archive.directory, "data/" + storage.key, place);
  item.payload = payload_of(source, archive.directory, record, place);
  item.record_bytes = record.size;
  item.packed = record.deflated() ? record.packed : 0;
  item.crc = record.crc;
  item.has_crc = has_crc(record);
  check_record(storage, record.size, item.payload, place);
}

// A safetensors file has no end record, and a message should say what the file is. Its header may be longer than the item.
ItemArchive open_archive(ItemSource& source, const Place& place, const Limits& limits) {
  try {
    return open_item_archive(source, place, limits);
  } catch (const Error& e) {
    const bool may_be = e.problem().id == ProblemId::zip_no_end && source.size() >= kSafetensorsBeginBytes;
    if (may_be && begins_like_safetensors(source.at(0, kSafetensorsBeginBytes), kMaxSafetensorsHeader))
      fail(ProblemId::item_is_safetensors, place);
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
  if (const auto& bad = machine.bad_text()) fail(ProblemId::pickle_unloadable, bad->place, bad->got, "UTF-8");
  TensorItem item;
  item.big_endian = archive.big_endian;
  item.trailing_bytes = machine.trailing_bytes();
  if (item.trailing_bytes > 0) item.pickle_end = at_offset(pickle.place, machine.pickle_bytes() - item.trailing_bytes);
  const TensorReader reader(machine, handler, limits, pickle.place);
  const TorchStorage storage = read_root(reader, handler, root, item);
  if (item.form == ItemForm::kStrided) {
    find_storage(source, archive, storage, item, place);
  } else {
    StorageRecords records(source, archive.directory, place);
    for (const Value& id : handler.persistent_ids())
      if (reader.names_storage(id)) records.check(reader.storage(id));
  }
  return item;
}

}  // namespace dcp
