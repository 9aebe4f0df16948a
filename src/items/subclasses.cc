#include "items/subclasses.h"

#include <map>
#include <optional>
#include <tuple>

#include "catalog/state_dict.h"
#include "catalog/torch_files.h"
#include "items/item_source.h"

namespace dcp {
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
    SliceSource source(files.store(), files.open(item.file), *catalog.files[item.file].bytes);
    source.go_to(item.offset, item.length, item.offset + item.length);
    std::string cls = read_tensor_item(source, catalog.place_of(id, catalog.key(t)), limits).subclass;
    return is_subclass(cls) ? cls : std::string();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::map<TensorId, std::string> subclasses(DataFiles& files, const Limits& limits) {
  const Catalog& catalog = files.catalog();
  std::map<TensorId, std::string> found;
  // The bytes of an item beyond its tensor's depend on dtype, number of dims and class. True: they are not those of a plain tensor.
  std::map<std::tuple<DType, uint8_t, uint64_t>, bool> odd;
  size_t read = 0;
  for (TensorId n = 0; n < catalog.tensors.size() && read < kMaxRead; ++n) {
    const Tensor& t = catalog.tensors[n];
    if (t.chunk_count == 0 || !t.dtype_known) continue;
    const Item& item = catalog.items[catalog.item_of(t, 0)];
    if (catalog.traits().in_torch_files && catalog.knows_items()) {
      const TorchValue& value = catalog.torch->items[catalog.item_of(t, 0)];
      const TorchFile& file = *catalog.torch->files[item.file];
      std::string cls = StateDict(*file.graph, file.archive.pickle_place, limits).tensor_call(value.value).cls;
      if (is_subclass(cls) && !is_one_ranks(cls)) found.emplace(n, std::move(cls));
    } else if (catalog.traits().has_metadata && item.file != kNone && item.transforms == 0 && !catalog.files[item.file].raw &&
               catalog.files[item.file].reaches(item)) {
      const uint64_t beyond = item.length - volume(catalog.box(t, 0).sizes) * bytes_of(t.dtype);
      const auto [group, is_first] = odd.try_emplace({t.dtype, t.rank, beyond}, true);
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
