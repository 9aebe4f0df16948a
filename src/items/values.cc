#include "items/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "base/text.h"
#include "catalog/state_dict.h"
#include "catalog/torch_files.h"
#include "format/blob.h"
#include "items/item_source.h"
#include "pickle/graph.h"

namespace dcp {
namespace {

constexpr uint64_t kMaxValueItem = 16 * 1024;
constexpr ReprCaps kCaps{.depth = 2, .length = 60, .text = 40};

template <class T>
std::string number_text(Bytes bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  if constexpr (std::is_floating_point_v<T>)
    if (std::isfinite(value)) return python_float(value);
  char text[40];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

// Little-endian, as items are; nullopt for dtypes that have no plain spelling.
std::optional<std::string> element_text(DType dtype, Bytes bytes) {
  if (bytes.size() < bytes_of(dtype)) return std::nullopt;
  switch (dtype) {
    case DType::bool_: return bytes[0] == std::byte{0} ? "False" : "True";
    case DType::uint8: return std::to_string(std::to_integer<unsigned>(bytes[0]));
    case DType::int8: return std::to_string(static_cast<int8_t>(bytes[0]));
    case DType::int16: return number_text<int16_t>(bytes);
    case DType::int32: return number_text<int32_t>(bytes);
    case DType::int64: return number_text<int64_t>(bytes);
    case DType::float32: return number_text<float>(bytes);
    case DType::float64: return number_text<double>(bytes);
    default: return std::nullopt;
  }
}

// Whether it is a scalar, or a short container of scalars. An object that only code could make does not count, and large containers are not
// searched.
bool is_plain(const PickleMachine& machine, const Value& v, unsigned depth = 0) {
  constexpr uint64_t kMaxValues = 64;
  switch (v.kind) {
    case Kind::kNil:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kText:
    case Kind::kBytes:
    case Kind::kBig: return true;
    case Kind::kTuple:
      if (depth == kCaps.depth || v.n > kMaxValues) return false;
      for (uint32_t i = 0; i < v.n; ++i)
        if (!is_plain(machine, machine.element(v, i), depth + 1)) return false;
      return true;
    case Kind::kList:
    case Kind::kDict:
    case Kind::kSet: break;
    default: return false;
  }
  PickleMachine::Items items = machine.items(v);
  uint64_t n = 0;
  for (Value of; items.next(of);)
    if (depth == kCaps.depth || ++n > kMaxValues || !is_plain(machine, of, depth + 1)) return false;
  return true;
}

std::optional<std::string> text_of(const PickleGraph& graph, const Value& v) {
  return is_plain(graph.machine(), v) ? std::optional(graph.repr(v, kCaps)) : std::nullopt;
}

class Reader {
 public:
  Reader(DataFiles& files, const Catalog& catalog, const Limits& limits) : files_(files), catalog_(catalog), limits_(limits) {
    limits_.item_pickle_bytes = limits_.blob_bytes = kMaxValueItem;  // deflated ones too
  }

  std::optional<std::string> object(BlobId b) {
    const ItemId id = catalog_.item_of(b);
    if (catalog_.items[id].file == kNone) return std::nullopt;
    const Place place = catalog_.place_of(id, catalog_.key(catalog_.blobs[b]));
    if (catalog_.traits().in_torch_files)
      return text_of(*catalog_.torch->files[catalog_.items[id].file]->graph, catalog_.torch->items[id].value);
    const std::vector<std::byte> bytes = read(id, place);
    MemorySource source(bytes);
    const BlobItem item = read_blob_item(source, place, limits_);
    const PickleGraph graph(item.pickle, item.pickle_place, limits_);
    return text_of(graph, graph.root());
  }

  std::optional<std::string> scalar(const Tensor& t) {
    const ItemId id = catalog_.item_of(t, 0);
    const std::vector<std::byte> bytes = read(id, catalog_.place_of(id, catalog_.key(t)));
    if (catalog_.traits().in_torch_files) return scalar_in(bytes, catalog_.torch->items[id].info);
    if (catalog_.files[catalog_.items[id].file].raw) return element_text(t.dtype, bytes);
    MemorySource source(bytes);
    const TensorItem item = read_tensor_item(source, catalog_.place_of(id, catalog_.key(t)), limits_);
    if (item.form != ItemForm::kStrided || item.packed > 0 || item.big_endian || item.neg || !item.sizes.empty()) return std::nullopt;
    const uint64_t at = item.payload + item.storage_offset * bytes_of(item.dtype);
    if (at + bytes_of(item.dtype) > bytes.size()) return std::nullopt;
    return element_text(item.dtype, Bytes(bytes).subspan(at));
  }

 private:
  // Of a storage.
  std::optional<std::string> scalar_in(Bytes bytes, const ItemInfo& info) const {
    if (info.opaque || info.swap || info.neg) return std::nullopt;
    const int64_t at = info.strides_at == 0 ? 0 : catalog_.torch->strides[info.strides_at];
    const uint64_t size = bytes_of(info.dtype);
    if (at < 0 || static_cast<uint64_t>(at) >= bytes.size() / size) return std::nullopt;
    return element_text(info.dtype, bytes.subspan(static_cast<uint64_t>(at) * size));
  }

  std::vector<std::byte> read(ItemId id, const Place& place) {
    std::vector<std::byte> bytes;
    decode_item(files_, catalog_.items[id], place, kMaxValueItem,
                [&](Bytes block) { bytes.insert(bytes.end(), block.begin(), block.end()); });
    return bytes;
  }
  DataFiles& files_;
  const Catalog& catalog_;
  Limits limits_;
};

}  // namespace

std::vector<KeyRef> with_small_values(const Catalog& catalog, std::span<const KeyRef> keys, size_t most) {
  std::vector<KeyRef> small;
  const bool in_pickles = catalog.traits().in_torch_files;
  size_t objects = 0, scalars = 0;
  const auto is_small = [&](ItemId id) {
    const Item& item = catalog.items[id];
    return item.file != kNone && catalog.files[item.file].bytes && item.length <= kMaxValueItem;
  };
  const auto is_scalar = [&](const Tensor& t) {
    return t.rank == 0 && t.strided && t.dtype_known && t.chunk_count == 1 && catalog.knows_items() && is_small(catalog.item_of(t, 0));
  };
  for (const KeyRef key : keys) {
    const bool is_one = key.is_blob() ? objects < most && (in_pickles || is_small(catalog.item_of(key.blob())))
                                      : scalars < most && is_scalar(catalog.tensors[key.tensor()]);
    if (!is_one) continue;
    ++(key.is_blob() ? objects : scalars);
    small.push_back(key);
  }
  return small;
}

std::map<KeyRef, std::string> small_values(DataFiles& files, const Catalog& catalog, const Limits& limits, std::span<const KeyRef> keys) {
  std::map<KeyRef, std::string> values;
  Reader reader(files, catalog, limits);
  for (const KeyRef key : keys) {
    try {
      auto text = key.is_blob() ? reader.object(key.blob()) : reader.scalar(catalog.tensors[key.tensor()]);
      if (text) values.emplace(key, std::move(*text));
    } catch (const Error&) {
    }
  }
  return values;
}

namespace {

constexpr size_t kMaxRead = 4096;  // items

// torch's own functions, for tensors that dtype and layout describe, are not subclasses.
bool is_subclass(std::string_view cls) {
  return !cls.empty() && cls != "torch.Tensor" && !cls.starts_with("torch.nn.parameter.") && !cls.starts_with("torch._");
}

std::string class_in(DataFiles& files, const Catalog& catalog, const Tensor& t, uint32_t chunk, const Limits& limits) {
  const ItemId id = catalog.item_of(t, chunk);
  const Item& item = catalog.items[id];
  try {
    SliceSource source(files, item.file);
    source.go_to(item.offset, item.length, item.offset + item.length);
    std::string cls = read_tensor_item(source, catalog.place_of(id, catalog.key(t)), limits).subclass;
    return is_subclass(cls) ? cls : std::string();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

namespace {

// The bytes of an item beyond its tensor's depend on dtype, number of dims and class.
using ItemGroup = std::tuple<DType, uint8_t, uint64_t>;

// Nothing for an item that says no class, or that cannot be looked at by itself.
std::optional<ItemGroup> group_of(const Catalog& catalog, const Tensor& t) {
  if (t.chunk_count == 0 || !t.dtype_known || !catalog.traits().has_metadata) return std::nullopt;
  const Item& item = catalog.items[catalog.item_of(t, 0)];
  if (item.file == kNone || item.transforms != 0 || catalog.files[item.file].raw || !catalog.files[item.file].reaches(item))
    return std::nullopt;
  return ItemGroup(t.dtype, t.rank, item.length - volume(catalog.box(t, 0).sizes) * bytes_of(t.dtype));
}

}  // namespace

std::vector<Item> parts_with_values(const Catalog& catalog, std::span<const KeyRef> keys) {
  std::vector<Item> parts;
  if (!catalog.traits().in_torch_files)
    for (const KeyRef key : keys)
      parts.push_back(catalog.items[key.is_blob() ? catalog.item_of(key.blob()) : catalog.item_of(catalog.tensors[key.tensor()], 0)]);
  std::set<ItemGroup> seen;
  for (const Tensor& t : catalog.tensors)
    if (const auto group = group_of(catalog, t); group && seen.size() < kMaxRead && seen.insert(*group).second)
      SliceSource::parts_of(catalog.items[catalog.item_of(t, 0)], parts);
  return parts;
}

std::map<TensorId, std::string> subclasses(DataFiles& files, const Limits& limits) {
  const Catalog& catalog = files.catalog();
  std::map<TensorId, std::string> found;
  std::map<ItemGroup, bool> odd;  // true: they are not those of a plain tensor
  size_t read = 0;
  for (TensorId n = 0; n < catalog.tensors.size() && read < kMaxRead; ++n) {
    const Tensor& t = catalog.tensors[n];
    if (t.chunk_count == 0 || !t.dtype_known) continue;
    if (catalog.traits().in_torch_files && catalog.knows_items()) {
      const TorchValue& value = catalog.torch->items[catalog.item_of(t, 0)];
      const TorchFile& file = *catalog.torch->files[catalog.items[catalog.item_of(t, 0)].file];
      std::string cls = StateDict(*file.graph, file.archive.pickle_place, limits).tensor_call(value.value).cls;
      if (is_subclass(cls) && !is_one_ranks(cls)) found.emplace(n, std::move(cls));
    } else if (const auto its = group_of(catalog, t)) {
      const auto [group, is_first] = odd.try_emplace(*its, true);
      if (!group->second) continue;
      std::string cls = class_in(files, catalog, t, 0, limits);
      ++read;
      if (is_first) group->second = !cls.empty();
      if (!cls.empty()) found.emplace(n, std::move(cls));
    }
  }
  return found;
}

}  // namespace dcp
