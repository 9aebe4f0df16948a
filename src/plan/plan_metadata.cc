#include "plan/plan_metadata.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "format/dcp_metadata_writer.h"

namespace dcp {
namespace {

// The regions of a tensor in the order in which torch lists chunks: rank by rank, and each rank's as it wrote them.
std::vector<const Region*> by_place(const Plan& plan, const PlanTensor& p) {
  std::vector<const Region*> regions;
  for (uint32_t r = p.first_region; r < p.first_region + p.region_count; ++r) regions.push_back(&plan.regions[r]);
  const auto place = [](const Region* r) { return std::pair(r->file, r->file_offset); };
  if (!std::ranges::is_sorted(regions, {}, place)) std::ranges::sort(regions, {}, place);
  return regions;
}

// nullptr: a byte item.
const Tensor* tensor_of(const Catalog& catalog, const DcpKey& key) { return key.is_blob() ? nullptr : &catalog.tensors[key.tensor()]; }

void write_entries(const Plan& plan, const Catalog& catalog, DcpMetadataStream& out) {
  for (const DcpKey& key : plan.keys->keys) {
    const Tensor* t = tensor_of(catalog, key);
    if (t == nullptr) {
      out.blob(key.name);
    } else if (key.copied) {
      out.tensor(key.name, catalog.strings[t->dtype_name], t->requires_grad, catalog.dims(*t));
      for (uint32_t c = 0; c < t->chunk_count; ++c) out.chunk(catalog.box(*t, c).offsets, catalog.box(*t, c).sizes);
    } else {
      const PlanTensor& p = plan.tensors[key.at];
      out.tensor(key.name, facts_of(plan.regions[p.first_region].dtype).name, t->requires_grad, catalog.dims(*t));
      for (const Region* r : by_place(plan, p)) {
        const BoxView box = plan.box(*r);
        out.chunk(box.offsets, box.sizes);
      }
    }
  }
}

void write_paths(const DcpKeys& keys, DcpMetadataStream& out) {
  out.planner_data(keys.has_paths);
  if (!keys.has_paths) return;
  std::vector<MetadataContent::PathElement> path;
  for (uint32_t k = 0; k < keys.keys.size(); ++k) {
    const DcpKey& key = keys.keys[k];
    path.clear();
    for (uint32_t p = key.first_part; p < key.first_part + key.part_count; ++p)
      path.push_back({.name = keys.parts[p].name, .position = keys.parts[p].position});
    out.path(k, key.name, path);
  }
}

void write_items(const Plan& plan, const Catalog& catalog, ItemsAre items, DcpMetadataStream& out) {
  out.storage();
  std::vector<std::string_view> transforms;
  for (uint32_t k = 0; k < plan.keys->keys.size(); ++k) {
    const DcpKey& key = plan.keys->keys[k];
    DcpMetadataStream::Item item{.key_number = k, .key = key.name, .offsets = {}, .index = {}};
    const Tensor* t = tensor_of(catalog, key);
    const auto at = [&](uint32_t file, uint64_t offset, uint64_t length) {
      item.file_number = file;
      item.file = plan.files[file].name;
      item.offset = offset;
      item.length = length;
      out.item(item);
    };
    if (key.copied) {
      for (uint32_t c = 0; c < (t ? t->chunk_count : 1); ++c) {
        const Slice& slice = plan.keys->slices[key.at + c];
        if (items == ItemsAre::kAsStored) {
          const auto& stored = catalog.transforms[catalog.items[t ? catalog.item_of(*t, c) : catalog.item_of(key.ref.blob())].transforms];
          transforms.assign(stored.begin(), stored.end());
          item.transforms = transforms;
        }
        if (t) {
          item.offsets = catalog.box(*t, c).offsets;
          item.index = c;
        }
        at(slice.file, slice.offset, slice.length);
      }
      continue;
    }
    const PlanTensor& p = plan.tensors[key.at];
    item.index = 0;
    for (const Region* region : by_place(plan, p)) {
      const Region& r = *region;
      item.offsets = plan.box(r).offsets;
      at(r.file, r.file_offset - r.head, r.head + plan.payload_bytes(r) + r.tail);
      ++*item.index;
    }
  }
}

// A save without flattening has no planner data, and neither has an output made from it, unless renaming has put its keys under a root.
// Safetensors files have none either, but an output made from them is a flat state dict, whose keys torch's planner keeps.
bool has_paths(const Catalog& catalog, const FlatEntries& flat) {
  const bool is_flat = catalog.traits().tensors_only;
  return catalog.has_planner_data || is_flat || std::ranges::any_of(flat.entries, [](const Entry& e) { return e.count > 1; });
}

// Attributes of the source's metadata that are plain data. Keys in them get their names in the output.
std::vector<DcpAttribute> kept_attributes(const Catalog& catalog, const FlatEntries& flat) {
  std::vector<DcpAttribute> kept;
  std::unordered_map<std::string_view, std::string_view> names;  // in the source -> in the output; "": left out
  for (const ExtraAttribute& a : catalog.provenance.attributes) {
    if (!a.kept()) continue;
    if (names.empty()) {
      for (const Tensor& t : catalog.tensors) names.emplace(catalog.key(t), "");
      for (const Blob& b : catalog.blobs) names.emplace(catalog.key(b), "");
      for (const Entry& e : flat.entries) names[catalog.key(e.ref)] = e.key;
    }
    DcpAttribute& out = kept.emplace_back(DcpAttribute{.name = a.name, .value = a.value, .entries = {}, .is_dict = a.is_dict});
    for (const auto& [key, value] : a.entries) {
      const auto known = names.find(key);
      if (known == names.end()) out.entries.emplace_back(key, value);
      else if (!known->second.empty()) out.entries.emplace_back(known->second, value);
    }
  }
  return kept;
}

}  // namespace

DcpKeys name_keys(const Catalog& catalog, const Selection& selection, const FlatEntries& flat) {
  DcpKeys keys{.keys = {}, .has_paths = has_paths(catalog, flat), .parts = {}, .slices = {}, .attributes = kept_attributes(catalog, flat)};
  keys.keys.reserve(flat.entries.size());
  for (const Entry& e : flat.entries) {
    DcpKey& key =
        keys.keys.emplace_back(DcpKey{.name = std::string(e.key), .ref = e.ref, .first_part = narrow<uint32_t>(keys.parts.size())});
    if (!keys.has_paths) continue;
    for (const PathPart& p : selection.path(e)) keys.parts.push_back({.name = std::string(p.name), .position = p.position});
    key.part_count = e.count;
  }
  return keys;
}

void write_plan_metadata(const Plan& plan, const Catalog& catalog, const std::function<void(std::string_view)>& sink, ItemsAre items) {
  DcpMetadataStream out(sink, plan.dcp->for_torch);
  write_entries(plan, catalog, out);
  write_paths(*plan.keys, out);
  write_items(plan, catalog, items, out);
  std::vector<DcpMetadataStream::Attribute> attributes;
  for (const DcpAttribute& a : plan.keys->attributes)
    attributes.push_back({.name = a.name, .value = a.value, .entries = {a.entries.begin(), a.entries.end()}, .is_dict = a.is_dict});
  out.finish(attributes);
}

}  // namespace dcp
