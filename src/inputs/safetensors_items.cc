#include "inputs/safetensors_items.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <unordered_map>

#include "catalog/cover.h"
#include "inputs/safetensors_files.h"

namespace dcp {
namespace {

// A data file whose tensors are one safetensors file.
struct SafetensorsPart {
  uint32_t file = 0;
  uint64_t begin = 0;  // after the byte items
  std::span<const ItemId> items;
};

// Sets its items by name. `owner` has the tensor of each item.
void set_items(OpenedCatalog& opened, const SafetensorsPart& part, const SafetensorsFile& shard, std::span<const TensorId> owner) {
  Catalog& catalog = opened.catalog;
  std::unordered_map<std::string_view, const SafetensorsEntry*> by_name;
  for (const SafetensorsEntry& e : shard.header.entries) by_name.emplace(e.name, &e);
  FindingList findings(opened.findings);
  for (const ItemId i : part.items) {
    catalog.items[i].file = kNone;
    const Tensor& t = catalog.tensors[owner[i]];
    const BoxView box = catalog.box(t, i - t.first_chunk);
    const auto found = by_name.find(catalog.key(t));
    Place place = shard.place;
    place.tensor = catalog.key(t);
    if (found == by_name.end() || !std::ranges::equal(saved_offsets(shard, *found->second), box.offsets) ||
        !std::ranges::equal(found->second->shape, box.sizes)) {
      if (volume(box.sizes) > 0)
        findings.add(make_finding(ProblemId::shard_lost, Severity::kDamage, place, {}, "chunk " + slice_text(box.offsets, box.sizes)));
      continue;
    }
    if (found->second->fault) throw Error(*found->second->fault);
    if (t.dtype_known && found->second->dtype != t.dtype)
      fail(ProblemId::shards_disagree, place, std::string(facts_of(found->second->dtype).name), std::string(facts_of(t.dtype).name));
    catalog.items[i] = {.offset = part.begin + found->second->offset, .length = found->second->bytes, .file = part.file};
  }
  findings.end();
  catalog.files[part.file].raw = true;
}

}  // namespace

void use_safetensors_items(Store& store, OpenedCatalog& opened, const OpenOptions& options) {
  Catalog& catalog = opened.catalog;
  std::vector<TensorId> owner(catalog.chunk_total);
  std::map<uint32_t, uint64_t> suspects;  // files, and where their safetensors part begins: torch writes that offset for every tensor in it
  std::set<uint32_t> transformed;         // those in which the part follows an empty stream for each tensor
  for (TensorId t = 0; t < catalog.tensors.size(); ++t) {
    const Tensor& tensor = catalog.tensors[t];
    for (uint32_t c = 0; c < tensor.chunk_count; ++c) {
      const ItemId item = catalog.item_of(tensor, c);
      owner[item] = t;
      const Item& i = catalog.items[item];
      // An archive is always longer than its payload.
      if (i.file == kNone || !tensor.dtype_known || i.length != volume(catalog.box(tensor, c).sizes) * bytes_of(tensor.dtype)) continue;
      uint64_t& begin = suspects[i.file];
      begin = std::max(begin, i.offset);
      if (i.transforms != 0) transformed.insert(i.file);
    }
  }
  std::unordered_map<uint32_t, std::vector<ItemId>> items;
  for (ItemId i = 0; !suspects.empty() && i < catalog.chunk_total; ++i)
    if (suspects.contains(catalog.items[i].file)) items[catalog.items[i].file].push_back(i);
  Limits left = options.limits;
  for (const auto& [file, last] : suspects) {
    const std::optional<Handle> handle = store.open_beneath(catalog.folder, catalog.file_name(file), options.links);
    if (!handle) continue;  // look_at_files reports it
    const OpenFile open(store, *handle);
    const uint64_t bytes = store.facts(*handle).bytes - std::min(last, store.facts(*handle).bytes);
    constexpr uint64_t kEmptyStreamBytes = 64;  // zstd's has 9; streams may be in streams
    std::vector<std::byte> head(std::min<uint64_t>(bytes, kEmptyStreamBytes + kSafetensorsBeginBytes));
    read_exact(store, *handle, last, head);
    uint64_t skipped = 0;
    const auto is_here = [&] { return begins_like_safetensors(Bytes(head).subspan(skipped), bytes - skipped); };
    while (!is_here() && transformed.contains(file) && skipped < std::min<uint64_t>(kEmptyStreamBytes, bytes)) ++skipped;
    if (!is_here()) continue;
    const uint64_t begin = last + skipped;
    const Place place{.path = catalog.file_path(file)};
    set_items(opened, {file, begin, items[file]},
              read_safetensors_file(store, {*handle, std::string(catalog.file_name(file)), place, begin}, left), owner);
    opened.findings.push_back(make_finding(ProblemId::safetensors_items, Severity::kWarning, place));
    catalog.provenance.loads_in = "none";
    catalog.provenance.why = {"data files hold safetensors (serialization_format=SAFETENSORS): dcp.load reads no tensor of them"};
  }
}

}  // namespace dcp
