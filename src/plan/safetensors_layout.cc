#include <algorithm>
#include <cstdio>
#include <map>

#include "base/checked.h"
#include "format/safetensors.h"
#include "plan/layout.h"

namespace dcp {
namespace {

// A tensor that goes into the output, with its name there.
struct Named {
  TensorId id = 0;
  std::string name;
  DType dtype{};
  uint64_t bytes = 0;
};

std::vector<Named> tensors_of(const SourceFacts& source, const Selection& selection, Plan& plan) {
  std::vector<Named> tensors;
  std::map<std::string_view, TensorId> names;
  std::string lacking;
  uint64_t lacking_count = 0;
  bool no_file_has = false;  // a tensor that is not plain, and is in pieces or would be cast: a .pt cannot hold it either
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) {
      ++plan.left_out_blobs;
      continue;
    }
    const Tensor& t = source.catalog.tensors[e.tensor()];
    const bool opaque = is_opaque(source, e.tensor());
    if (opaque || facts_of(e.dtype).safetensors.empty()) {
      no_file_has = no_file_has || (opaque && (t.chunk_count > 1 || selection.casts.requested));
      // Name all of them, so that the user does not meet them one by one.
      if (++lacking_count <= 20)
        lacking += (lacking.empty() ? "" : ", ") + std::string(source.catalog.key(t)) + " (" +
                   std::string(source.catalog.strings[t.dtype_name]) + ")";
      continue;
    }
    Named n{e.tensor(), std::string(e.key), e.dtype, source.catalog.elements(t) * bytes_of(e.dtype)};
    const auto [it, fresh] = names.try_emplace(e.key, e.tensor());
    if (!fresh)
      fail(ProblemId::keys_collide, {.path = source.catalog.path, .tensor = std::string(source.catalog.key(t))},
           "'" + n.name + "', which is also the name of '" + std::string(source.catalog.key(source.catalog.tensors[it->second])) + "'");
    tensors.push_back(std::move(n));
  }
  if (lacking_count > 20) lacking += " and " + std::to_string(lacking_count - 20) + " more";
  if (lacking_count > 0) {
    Problem p = make_problem(ProblemId::no_dtype_in_output, {.path = source.catalog.path}, lacking);
    if (no_file_has) p.remedy = Remedy::kFewerKeys;
    throw Error(std::move(p));
  }
  if (tensors.empty() && !source.catalog.order.empty()) fail(ProblemId::nothing_selected, {.path = source.catalog.path}, "no tensor");
  return tensors;
}

struct Shard {
  std::string name;  // "": numbered
  std::vector<Named> tensors;
};

// Greedy, in the metadata's order, as transformers splits a state dict: a tensor larger than the limit gets a shard of its own.
std::vector<Shard> into_shards(std::vector<Named> tensors, uint64_t limit) {
  std::vector<Shard> shards(1);
  uint64_t held = 0;
  for (Named& t : tensors) {
    if (limit > 0 && !shards.back().tensors.empty() && held + t.bytes > limit) {
      shards.emplace_back();
      held = 0;
    }
    held += t.bytes;
    shards.back().tensors.push_back(std::move(t));
  }
  return shards;
}

// A shard for each file that a tensor begins in, in the order of the files' names.
std::vector<Shard> shards_of_source(const Catalog& catalog, std::vector<Named> tensors) {
  std::map<uint32_t, std::vector<Named>> by_file;
  for (Named& t : tensors) by_file[catalog.items[catalog.item_of(catalog.tensors[t.id], 0)].file].push_back(std::move(t));
  std::vector<Shard> shards;
  for (auto& [file, held] : by_file) shards.push_back({.name = {}, .tensors = std::move(held)});
  return shards;
}

// Puts each tensor into the file that an index names for it.
std::vector<Shard> shards_as_in(const LayoutOptions& options, std::vector<Named> tensors) {
  const std::map<std::string_view, std::string_view> file_of(options.file_of.begin(), options.file_of.end());
  std::map<std::string_view, std::vector<Named>> by_file;
  for (Named& t : tensors) {
    const auto file = file_of.find(t.name);
    if (file == file_of.end())
      fail(ProblemId::hf_index_bad, {.path = options.file_of_path, .tensor = t.name}, "no file for it",
           "one for each tensor that is written");
    if (file->second.find('/') != std::string_view::npos || !file->second.ends_with(".safetensors"))
      fail(ProblemId::hf_index_bad, {.path = options.file_of_path, .tensor = t.name}, std::string(file->second),
           "the name of a safetensors file");
    by_file[file->second].push_back(std::move(t));
  }
  std::vector<Shard> shards;
  for (auto& [name, held] : by_file) shards.push_back({.name = std::string(name), .tensors = std::move(held)});
  return shards;
}

void lay_out(const Catalog& catalog, std::vector<Named> tensors, std::string file_name, Plan& plan) {
  std::ranges::sort(tensors, [&](const Named& a, const Named& b) { return safetensors_before(a.dtype, a.name, b.dtype, b.name); });
  std::vector<SafetensorsEntry> entries;
  for (const Named& n : tensors) {
    const Dims shape = output_shape(plan, catalog, n.id);
    entries.push_back({.name = n.name, .dtype = n.dtype, .shape = {shape.begin(), shape.end()}});
  }
  const auto file = narrow<uint32_t>(plan.files.size());
  plan.literals.push_back({.file = file, .bytes = write_safetensors_header(entries, {{"format", "pt"}})});
  uint64_t bytes = plan.literals.back().bytes.size();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto region = narrow<uint32_t>(plan.regions.size());
    plan.regions.push_back({.file_offset = entries[i].offset,
                            .box_at = add_whole_box(plan, catalog.dims(catalog.tensors[tensors[i].id])),
                            .tensor = narrow<uint32_t>(plan.tensors.size()),
                            .file = file,
                            .dtype = entries[i].dtype,
                            .rank = catalog.tensors[tensors[i].id].rank});
    plan.tensors.push_back({.id = tensors[i].id, .first_region = region, .region_count = 1});
    plan.tensor_bytes += tensors[i].bytes;
    plan.largest_tensor = std::max(plan.largest_tensor, tensors[i].bytes);
    bytes = entries[i].offset + entries[i].bytes;
  }
  plan.bytes_to_write += bytes;
  plan.files.push_back({.name = std::move(file_name), .bytes = bytes, .archive = std::nullopt, .payloads = {}});
}

std::string shard_name(size_t number, size_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors", number, count);
  return text;
}

}  // namespace

Plan plan_safetensors(const SourceFacts& source, const Selection& selection, const LayoutOptions& options) {
  Plan plan;
  plan.mcore_shapes = options.mcore_shapes;
  plan.folder = options.max_shard_bytes > 0 || options.shards_of_source || !options.file_of.empty();
  std::vector<Named> tensors = tensors_of(source, selection, plan);
  std::vector<Shard> shards = options.shards_of_source   ? shards_of_source(source.catalog, std::move(tensors))
                              : !options.file_of.empty() ? shards_as_in(options, std::move(tensors))
                                                         : into_shards(std::move(tensors), options.max_shard_bytes);
  std::vector<std::pair<std::string, std::string>> weight_map;
  for (size_t s = 0; s < shards.size(); ++s) {
    const std::string name = !plan.folder ? "" : !shards[s].name.empty() ? shards[s].name : shard_name(s + 1, shards.size());
    for (const Named& n : shards[s].tensors) weight_map.emplace_back(n.name, name);
    lay_out(source.catalog, std::move(shards[s].tensors), name, plan);
  }
  if (plan.folder) {  // the index comes last: its presence means that the folder is complete
    std::string index = write_hf_index(plan.tensor_bytes, weight_map);
    const uint64_t bytes = index.size();
    plan.literals.push_back({.file = narrow<uint32_t>(plan.files.size()), .bytes = std::move(index)});
    plan.files.push_back({.name = "model.safetensors.index.json", .bytes = bytes, .archive = std::nullopt, .payloads = {}});
    plan.bytes_to_write += bytes;
  }
  cut_into_units(plan, source, options.units);
  return plan;
}

}  // namespace dcp
