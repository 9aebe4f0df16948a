#include "format/blob.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "format/item_archive.h"
#include "format/torch_tensor.h"
#include "pickle/machine.h"
#include "pickle/weights_only.h"

namespace dcp {
namespace {

constexpr std::string_view kFolder = "data/";

// Classes of storages and dtypes are kTyped, any other global is kGlobal: `n` is the meaning of a function that makes plain tensors, or
// kNamed plus the number of a name. Of the values made, only storages are kept.
class ObjectHandler : public TorchNames {
 public:
  using Means = TorchGlobal::Kind;

  ObjectHandler(ObjectPickle& out, const Limits& limits) : out_(out), limits_(limits) {}

  Value global(PickleMachine&, std::string_view module, std::string_view name) {
    const TorchGlobal g = torch_global(module, name);
    switch (g.kind) {
      case Means::kTypedStorage:
      case Means::kUntypedStorage:
      case Means::kDType: return {.kind = Kind::kTyped, .tag = static_cast<uint16_t>(g.kind), .n = static_cast<uint32_t>(g.dtype)};
      case Means::kTensorV1:
      case Means::kTensorV2:
      case Means::kTensorV3: return function(g.kind);
      default: break;
    }
    std::string text = std::string(module) + "." + std::string(name);
    const auto [it, fresh] = numbers_.try_emplace(text, static_cast<uint32_t>(names_.size()));
    if (fresh) {
      if (!weights_only_allows(text)) refuse(text);
      names_.push_back(std::move(text));
    }
    return {.kind = Kind::kGlobal, .n = kNamed + it->second};
  }
  // A BUILD of a global changes the class or function for everything that follows; weights_only refuses it.
  void build_global(PickleMachine&, const Value& object) {
    const Means means = meaning(object).kind;
    const std::string of_tensors = means == Means::kTensorV3 ? "_v3" : means == Means::kTensorV2 ? "_v2" : "";
    refuse(object.n >= kNamed ? names_[object.n - kNamed] : "torch._utils._rebuild_tensor" + of_tensors);
  }
  Value persistent(PickleMachine& machine, const Value& id) {
    const Place place = machine.place();
    const TensorReader reader(machine, *this, limits_, place);
    if (reader.names_storage(id)) {
      out_.storages.push_back(reader.storage(id));
      // With the memo, three bytes can repeat a key of a megabyte.
      held_ += sizeof(TorchStorage) + out_.storages.back().key.capacity();
      if (held_ > limits_.memory_bytes) fail(ProblemId::memory_cap, place);
      return machine.object(function(Means::kStorage), id);
    }
    if (id.kind != Kind::kTuple || id.n != 5) {
      fail(ProblemId::pickle_storage_id, place, machine.describe(id), "('storage', class, key, location, count)");
    }
    return {.kind = Kind::kOpaque};
  }
  Value reduce(PickleMachine& machine, const Value& callable, const Value& arguments) {
    const Means call = meaning(callable).kind;
    if (call != Means::kOther && !out_.bad_tensor) look_at(machine, call, arguments);
    return {.kind = Kind::kOpaque};
  }
  Value new_object(PickleMachine&, const Value&, const Value&, const Value&) { return {.kind = Kind::kOpaque}; }
  Value build(PickleMachine&, const Value& object, const Value&) {
    if (object.kind == Kind::kTyped) refuse("torch." + std::string(facts_of(static_cast<DType>(object.n)).name));
    return {.kind = Kind::kOpaque};
  }

  TorchGlobal meaning(const Value& v) const override {
    if (v.kind == Kind::kGlobal) return {v.n >= kNamed ? Means::kOther : static_cast<Means>(v.n), {}};
    if (v.kind != Kind::kTyped) return {};
    return {static_cast<Means>(v.tag), static_cast<DType>(v.n)};
  }
  std::string name_of(const Value&) const override { return {}; }

 private:
  static constexpr uint32_t kNamed = 1000;
  static Value function(Means means) { return {.kind = Kind::kGlobal, .n = static_cast<uint32_t>(means)}; }

  void refuse(std::string name) {
    if (refused_.insert(name).second) out_.refused.push_back(std::move(name));
  }

  void look_at(const PickleMachine& machine, Means call, const Value& arguments) {
    const Place place = machine.place();
    try {
      TensorReader(machine, *this, limits_, place).check_inside(call, arguments);
    } catch (const Error& e) {
      out_.bad_tensor = e.problem();
    }
  }

  ObjectPickle& out_;
  const Limits& limits_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<std::string> names_;
  std::unordered_set<std::string> refused_;
  uint64_t held_ = 0;  // bytes of storages
};

}  // namespace

StoragesByKey by_key(const BlobItem& item) {
  StoragesByKey found;
  for (const BlobItem::Storage& s : item.storages) found.emplace(s.key, &s);
  return found;
}

ItemArchive open_blob_archive(ItemSource& item, const Place& place, const Limits& limits) {
  try {
    return open_item_archive(item, place, limits);
  } catch (const Error& e) {
    if (e.problem().id == ProblemId::zip_no_end) fail(ProblemId::blob_not_archive, place);
    throw;
  }
}

BlobItem read_blob_item(ItemSource& item, const Place& place, const Limits& limits) {
  return read_blob_item(item, open_blob_archive(item, place, limits), limits.blob_bytes, limits, place);
}

BlobItem read_blob_item(ItemSource& item, const ItemArchive& archive, uint64_t pickle_bytes, const Limits& limits, const Place& place) {
  ItemPickle pickle = read_item_pickle(item, archive.directory, pickle_bytes, limits, place);
  BlobItem blob{.pickle = std::move(pickle.bytes), .packed_pickle = pickle.packed, .pickle_place = std::move(pickle.place), .storages = {}};
  blob.big_endian = archive.big_endian;
  for (const ZipRecord& record : archive.directory.records) {
    // Some zip tools write an entry for the folder `data/` itself.
    if (!record.name.starts_with(kFolder) || record.name.ends_with('/')) continue;
    check_method(record, place);
    BlobItem::Storage& storage = blob.storages.emplace_back();
    storage.key = record.name.substr(kFolder.size());
    storage.payload = payload_of(item, archive.directory, record, place);
    storage.bytes = record.size;
    storage.packed = record.deflated() ? record.packed : 0;
    storage.crc = record.crc;
    storage.has_crc = has_crc(record);
  }
  return blob;
}

ObjectPickle run_object_pickle(Bytes pickle, const Place& place, const Limits& limits) {
  ObjectPickle object;
  try {
    PickleMachine machine(pickle, place, limits);
    ObjectHandler handler(object, limits);
    machine.run(handler);
    object.trailing_bytes = machine.trailing_bytes();
    if (const auto& bad = machine.bad_text()) object.fault = make_problem(ProblemId::pickle_unloadable, bad->place, bad->got, "UTF-8");
  } catch (const Error& e) {
    object.unseen = e.problem().id == ProblemId::memory_cap || e.problem().id == ProblemId::over_limit;
    if (!object.unseen) object.fault = e.problem();
  }
  return object;
}

void check_object(ItemSource& item, const ZipDirectory& directory, const ObjectPickle& object, const Place& place) {
  if (object.fault) throw Error(*object.fault);
  if (object.bad_tensor) throw Error(*object.bad_tensor);
  if (object.unseen || object.storages.empty()) return;
  StorageRecords records(item, directory, place);
  for (const TorchStorage& s : object.storages) records.check(s);
}

namespace {

// A pickle that dcpctl does not understand is no reason to refuse a copy.
void check_named_storages(ItemSource& item, const ZipDirectory& directory, const Limits& limits, const Place& place) {
  const ZipRecord* record = directory.find("data.pkl");
  if (record == nullptr || (record->method != ZipRecord::kStored && !record->deflated())) return;
  if (record->size > (record->deflated() ? std::min(limits.blob_bytes, limits.decoded_bytes) : limits.blob_bytes)) return;
  const ItemPickle pickle = read_item_pickle(item, directory, limits.blob_bytes, limits, place);
  const ObjectPickle object = run_object_pickle(pickle.bytes, pickle.place, limits);
  if (!object.fault) check_object(item, directory, object, place);
}

}  // namespace

BlobItem read_blob_records(ItemSource& item, const Place& place, const Limits& limits) {
  BlobItem blob{.pickle = {}, .packed_pickle = 0, .pickle_place = place, .storages = {}};
  ZipDirectory directory;
  try {
    directory = read_zip_directory(item, place, limits);
  } catch (const Error& e) {
    if (e.problem().id == ProblemId::zip_no_end) return blob;
    throw;
  }
  for (const ZipRecord& record : directory.records) {
    const uint64_t payload = payload_of(item, directory, record, place);
    // The CRC of a deflated record covers its inflated bytes, not those that are copied, so it is checked here.
    if (record.deflated()) check_record_crc(item, record, payload, place);
    blob.storages.push_back({.key = record.name,
                             .payload = payload,
                             .bytes = record.packed,
                             .crc = record.crc,
                             .has_crc = has_crc(record) && record.method == ZipRecord::kStored});
  }
  check_named_storages(item, directory, limits, place);
  return blob;
}

}  // namespace dcp
