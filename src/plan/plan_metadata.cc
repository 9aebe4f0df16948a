#include "plan/plan_metadata.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "format/dcp_metadata_writer.h"

namespace dcp {
namespace {

// The regions of a tensor as torch lists its chunks: rank by rank, each rank's in the order in which it wrote them.
std::vector<const Region*> by_place(const Plan& plan, const PlanTensor& p) {
  std::vector<const Region*> regions;
  for (uint32_t r = p.first_region; r < p.first_region + p.region_count; ++r) regions.push_back(&plan.regions[r]);
  const auto place = [](const Region* r) { return std::pair(r->file, r->file_offset); };
  if (!std::ranges::is_sorted(regions, {}, place)) std::ranges::sort(regions, {}, place);
  return regions;
}

void write_entries(const Plan& plan, const PlanKeys& keys, DcpMetadataStream& out) {
  for (size_t e = 0; e < keys.at.size(); ++e) {
    const std::string_view key = keys.flat.entries[e].key;
    const Tensor* t = keys.tensor(e);
    if (t == nullptr) {
      out.blob(key);
    } else if (keys.copied[e]) {
      out.tensor(key, keys.catalog.strings[t->dtype_name], t->requires_grad, keys.catalog.dims(*t));
      for (uint32_t c = 0; c < t->chunk_count; ++c) out.chunk(keys.catalog.box(*t, c).offsets, keys.catalog.box(*t, c).sizes);
    } else {
      const PlanTensor& p = plan.tensors[keys.at[e]];
      out.tensor(key, facts_of(plan.regions[p.first_region].dtype).name, t->requires_grad, keys.catalog.dims(*t));
      for (const Region* r : by_place(plan, p)) {
        const BoxView box = plan.box(*r);
        out.chunk(box.offsets, box.sizes);
      }
    }
  }
}

// A save of torch's without flattening has no planner data, nor has what is made of it, unless the choice of names has put its keys under a
// root. Safetensors files have none either, but what is made of them is a flat state dict, whose keys torch's planner names as they are.
bool has_paths(const PlanKeys& keys) {
  const bool flat = keys.catalog.kind == CheckpointKind::kSafetensors || keys.catalog.kind == CheckpointKind::kHf;
  return keys.catalog.has_planner_data || flat || std::ranges::any_of(keys.flat.entries, [](const Entry& e) { return e.count > 1; });
}

void write_paths(const PlanKeys& keys, DcpMetadataStream& out) {
  const bool given = has_paths(keys);
  out.planner_data(given);
  if (!given) return;
  std::vector<MetadataContent::PathElement> path;
  for (uint32_t e = 0; e < keys.at.size(); ++e) {
    path.clear();
    for (const PathPart& part : keys.selection.path(keys.flat.entries[e])) path.push_back({.name = part.name, .position = part.position});
    out.path(e, keys.flat.entries[e].key, path);
  }
}

void write_items(const Plan& plan, const PlanKeys& keys, DcpMetadataStream& out) {
  out.storage();
  for (uint32_t e = 0; e < keys.at.size(); ++e) {
    DcpMetadataStream::Item item{.key_number = e, .key = keys.flat.entries[e].key, .offsets = {}, .index = {}};
    const Tensor* t = keys.tensor(e);
    const auto at = [&](uint32_t file, uint64_t offset, uint64_t length) {
      item.file_number = file;
      item.file = plan.files[file].name;
      item.offset = offset;
      item.length = length;
      out.item(item);
    };
    if (keys.copied[e]) {
      for (uint32_t c = 0; c < (t ? t->chunk_count : 1); ++c) {
        const Slice& slice = keys.slices[keys.at[e] + c];
        if (t) {
          item.offsets = keys.catalog.box(*t, c).offsets;
          item.index = c;
        }
        at(slice.file, slice.offset, slice.length);
      }
      continue;
    }
    const PlanTensor& p = plan.tensors[keys.at[e]];
    item.index = 0;
    for (const Region* region : by_place(plan, p)) {
      const Region& r = *region;
      item.offsets = plan.box(r).offsets;
      at(r.file, r.file_offset - r.head, r.head + plan.payload_bytes(r) + r.tail);
      ++*item.index;
    }
  }
}

// Attributes of the source's metadata that are plain data. In those that say something about keys, keys have their names in the output.
std::vector<DcpMetadataStream::Attribute> kept_attributes(const PlanKeys& keys) {
  std::vector<DcpMetadataStream::Attribute> kept;
  std::unordered_map<std::string_view, std::string_view> names;  // in the source -> in the output; "": left out
  for (const ExtraAttribute& a : keys.catalog.provenance.attributes) {
    if (!a.kept()) continue;
    if (names.empty()) {
      for (const Tensor& t : keys.catalog.tensors) names.emplace(keys.catalog.key(t), "");
      for (const Blob& b : keys.catalog.blobs) names.emplace(keys.catalog.key(b), "");
      for (const Entry& e : keys.flat.entries) names[source_key(keys.catalog, e)] = e.key;
    }
    DcpMetadataStream::Attribute& out =
        kept.emplace_back(DcpMetadataStream::Attribute{.name = a.name, .value = a.value, .entries = {}, .is_dict = a.is_dict});
    for (const auto& [key, value] : a.entries) {
      const auto known = names.find(key);
      if (known == names.end()) out.entries.emplace_back(key, value);
      else if (!known->second.empty()) out.entries.emplace_back(known->second, value);
    }
  }
  return kept;
}

}  // namespace

void write_plan_metadata(const Plan& plan, const PlanKeys& keys, const std::function<void(std::string_view)>& sink) {
  DcpMetadataStream out(sink, plan.dcp->for_torch);
  write_entries(plan, keys, out);
  write_paths(keys, out);
  write_items(plan, keys, out);
  out.finish(kept_attributes(keys));
}

}  // namespace dcp
