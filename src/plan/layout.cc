#include "plan/layout.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>

#include "base/checked.h"
#include "base/text.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "plan/torch_layout.h"
#include "plan/tree.h"

namespace dcp {

void add_check(Plan& plan, const CopyCheck& check) {
  CopyRange& range = plan.copies.back();
  if (range.check_count++ == 0) range.first_check = narrow<uint32_t>(plan.copy_checks.size());
  plan.copy_checks.push_back(check);
}

uint64_t add_whole_box(Plan& plan, Dims dims) {
  const uint64_t at = plan.numbers.size();
  plan.numbers.insert(plan.numbers.end(), dims.size(), 0);
  plan.numbers.insert(plan.numbers.end(), dims.begin(), dims.end());
  return at;
}

bool is_opaque(const SourceFacts& source, TensorId id) {
  const Tensor& t = source.catalog.tensors[id];
  for (uint32_t c = 0; c < t.chunk_count; ++c)
    if (source.resolved.items[source.catalog.item_of(t, c)].opaque) return true;
  return false;
}

void refuse_opaque(const SourceFacts& source, TensorId id) {
  if (!is_opaque(source, id)) return;
  const Catalog& catalog = source.catalog;
  Problem p = make_problem(ProblemId::cast_opaque, {.path = catalog.path, .tensor = std::string(catalog.key(catalog.tensors[id]))},
                           "one that is quantized or a subclass");
  p.what = "only plain tensors have elements that stand for themselves";
  const bool is_in_pieces = catalog.tensors[id].chunk_count > 1;
  p.hint = is_in_pieces ? "only a distributed checkpoint holds it, in the chunks that it has here" : "a .pt file holds it whole";
  throw Error(std::move(p));
}

// An empty file is the answer for an empty checkpoint alone.
void refuse_no_tensor(const Catalog& catalog) {
  if (!catalog.order.empty()) fail(ProblemId::nothing_selected, {.path = catalog.path}, "no tensor");
}

void refuse_opaque_casts(const SourceFacts& source, const Selection& selection) {
  std::vector<std::string> keys;
  std::string_view dtype;
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) continue;
    const Tensor& t = source.catalog.tensors[e.tensor()];
    if (e.dtype == t.dtype || !is_opaque(source, e.tensor())) continue;
    if (keys.empty()) dtype = facts_of(t.dtype).name;
    keys.emplace_back(source.catalog.key(t));
  }
  if (keys.empty()) return;
  const std::string first = std::move(keys.front());
  keys.erase(keys.begin());
  fail(ProblemId::cast_opaque, {.path = source.catalog.path, .tensor = first},
       std::string(dtype) + " that is quantized or a subclass" + (keys.empty() ? "" : "; also " + list_of(keys, 10)));
}

// Files of one tensor each: its elements, row-major and little-endian, alone or after the header of a .npy file.

namespace {

// Adds a region for the whole tensor, at a place that is set later; returns its bytes.
uint64_t add_region(const SourceFacts& source, const Entry& e, uint32_t file, Plan& plan) {
  refuse_opaque(source, e.tensor());
  const Tensor& t = source.catalog.tensors[e.tensor()];
  const uint64_t bytes = source.catalog.elements(t) * bytes_of(e.dtype);
  plan.regions.push_back({.box_at = add_whole_box(plan, source.catalog.dims(t)),
                          .tensor = narrow<uint32_t>(plan.tensors.size()),
                          .file = file,
                          .dtype = e.dtype,
                          .rank = t.rank});
  plan.tensors.push_back({.id = e.tensor(), .first_region = narrow<uint32_t>(plan.regions.size() - 1), .region_count = 1});
  plan.tensor_bytes += bytes;
  plan.largest_tensor = std::max(plan.largest_tensor, bytes);
  return bytes;
}

}  // namespace

Plan plan_arrays(const SourceFacts& source, const Selection& selection, ArrayForm form, const UnitOptions& units) {
  refuse_opaque_casts(source, selection);
  Plan plan;
  for (const Entry& e : selection.entries) {
    const auto file = narrow<uint32_t>(plan.files.size());
    const uint64_t bytes = add_region(source, e, file, plan);
    uint64_t at = 0;
    if (form == ArrayForm::kNpy) {
      plan.literals.push_back({.file = file, .bytes = npy_header(e.dtype, source.catalog.dims(source.catalog.tensors[e.tensor()]))});
      at = plan.literals.back().bytes.size();
    }
    plan.regions.back().file_offset = at;
    plan.files.push_back({.name = {}, .bytes = at + bytes, .archive = std::nullopt, .payloads = {}});
    plan.bytes_to_write += at + bytes;
  }
  cut_into_units(plan, source, units);
  return plan;
}

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
                   std::string(source.catalog.strings[t.dtype_name]) +
                   (opaque && !facts_of(t.dtype).safetensors.empty() ? ", in a class of its own)" : ")");
      continue;
    }
    tensors.push_back({e.tensor(), std::string(e.key), e.dtype, source.catalog.elements(t) * bytes_of(e.dtype)});
  }
  if (lacking_count > 20) lacking += " and " + std::to_string(lacking_count - 20) + " more";
  if (lacking_count > 0) {
    Problem p = make_problem(ProblemId::no_dtype_in_output, {.path = source.catalog.path}, lacking);
    if (no_file_has) p.remedy = Remedy::kFewerKeys;
    throw Error(std::move(p));
  }
  refuse_collisions(source.catalog, selection.entries, Objects::kNo);
  if (tensors.empty()) refuse_no_tensor(source.catalog);
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

Plan plan_torch(const SourceFacts& source, const Selection& selection, const LayoutOptions& options) {
  refuse_opaque_pieces(source, selection);  // first, because these are refused even without a cast
  refuse_opaque_casts(source, selection);
  Plan plan;
  plan.mcore_shapes = options.mcore_shapes;
  std::vector<Entry> entries = selection.entries;
  if (options.weights_only_safe) leave_out_unsafe(source, options.limits, entries, plan);
  if (entries.empty() && !source.catalog.order.empty()) fail(ProblemId::nothing_selected, {.path = source.catalog.path});
  TorchFileLayout files(source, {.limits = options.limits, .verify = options.units.verify, .notes_unsafe = true}, plan);
  uint64_t bytes = 300 * entries.size();  // real pickles have 250 bytes a tensor
  for (const auto& [item, b] : source.resolved.blobs) bytes += b.item.pickle.size();
  files.expect(bytes);
  const auto whole = [&](const Entry& e) {
    const auto region = narrow<uint32_t>(plan.regions.size());
    add_region(source, e, 0, plan);
    return TensorInFile{.shape = output_shape(plan, source.catalog, e.tensor()), .regions = {region}};
  };
  if (options.bare) {
    files.add("", entries.front(), whole);
  } else {
    const Tree tree(source.catalog, selection, entries, options.limits);
    files.add("", {tree, 0, entries, plan.list_holes}, whole);
  }
  cut_into_units(plan, source, options.units);
  return plan;
}

Plan plan_npz(const SourceFacts& source, const Selection& selection, const UnitOptions& units) {
  refuse_opaque_casts(source, selection);
  Plan plan;
  OutputFile file;
  file.archive.emplace("");
  refuse_collisions(source.catalog, selection.entries, Objects::kNo);
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) {
      ++plan.left_out_blobs;
      continue;
    }
    const uint64_t bytes = add_region(source, e, 0, plan);
    std::string header = npy_header(e.dtype, source.catalog.dims(source.catalog.tensors[e.tensor()]));
    const uint64_t at = file.archive->add(std::string(e.key) + ".npy", header.size() + bytes);
    file.payloads.push_back({ArchivePayload::Kind::kRegion, narrow<uint32_t>(plan.regions.size() - 1)});
    plan.regions.back().file_offset = at + header.size();
    plan.literals.push_back({.file = 0, .file_offset = at, .bytes = std::move(header)});
  }
  if (plan.regions.empty()) refuse_no_tensor(source.catalog);
  file.bytes = plan.bytes_to_write = file.archive->total_bytes();
  plan.files.push_back(std::move(file));
  cut_into_units(plan, source, units);
  return plan;
}

}  // namespace dcp
