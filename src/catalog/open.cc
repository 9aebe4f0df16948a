#include "catalog/open.h"

#include <algorithm>
#include <filesystem>

#include "base/decimal.h"
#include "base/natural_order.h"
#include "catalog/build.h"
#include "catalog/cover.h"
#include "catalog/data_files.h"
#include "catalog/foreign.h"
#include "catalog/open_safetensors.h"
#include "catalog/open_torch.h"
#include "catalog/open_torch_checkpointing.h"
#include "catalog/open_torch_ranks.h"
#include "catalog/rank_local.h"
#include "catalog/run.h"
#include "catalog/safetensors_files.h"
#include "catalog/safetensors_items.h"
#include "format/dcp_metadata.h"
#include "format/lfs_pointer.h"
#include "pickle/text_opcodes.h"

namespace dcp {
namespace {

constexpr std::string_view kMetadata = ".metadata";

// What a real `.metadata` takes while it is read, in bytes for each of its own: itself, its typed content and the catalog at once. Measured
// on 10^6 chunks: 2.2. Made-up ones that take more are stopped as they grow (PickleMachine, check_catalog_fits).
constexpr uint64_t kMemoryTenths = 25;

void check_fits(uint64_t metadata_bytes, const std::string& file, const Limits& limits) {
  const uint64_t needed = metadata_bytes / 10 * kMemoryTenths;
  if (needed <= limits.memory_bytes) return;
  Problem p = make_problem(ProblemId::memory_cap, {.path = file},
                           std::to_string(needed / kMiB) + " MiB for " + std::to_string(metadata_bytes / kMiB) + " MiB of metadata");
  p.remedy = Remedy::kMoreMemory;
  p.enough_bytes = needed + 64 * kMiB;
  throw Error(std::move(p));
}

OpenedCatalog read_metadata(Store& store, const std::string& file, const std::string& path, const std::string& folder,
                            const OpenOptions& options) {
  if (const auto facts = store.facts(file)) check_fits(facts->bytes, file, options.limits);
  // A file that the user named may be a link; one that was found in the folder is part of the checkpoint.
  std::vector<std::byte> bytes =
      path == file ? read_file(store, file, options.limits.metadata_bytes)
                   : read_file_beneath(store, folder, std::string(kMetadata), options.links, options.limits.metadata_bytes);
  if (is_lfs_pointer(bytes)) fail(ProblemId::lfs_pointer, {.path = file});
  if (auto binary = binary_form(bytes, {.path = file}, options.limits)) bytes = std::move(*binary);
  MetadataContent content = read_dcp_metadata(bytes, {.path = file}, options.limits);
  const std::deque<std::string> text = hold_text(content);
  std::vector<std::byte>().swap(bytes);  // before the catalog grows
  check_catalog_fits(content, file, options.limits);
  OpenedCatalog opened = build_catalog(content, path, folder);
  use_safetensors_items(store, opened, options);
  return opened;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 5; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > 5 ? text + ", ... (" + std::to_string(names.size()) + " in all)" : text;
}

// The R of `__R.metadata`.
std::optional<uint32_t> rank_of(std::string_view name) {
  if (!name.starts_with("__") || !name.ends_with(kMetadata)) return std::nullopt;
  return decimal<uint32_t>(name.substr(2, name.size() - 2 - kMetadata.size()));
}

OpenedCatalog read_rank_local(Store& store, const std::string& path, std::vector<uint32_t> ranks, const OpenOptions& options) {
  std::ranges::sort(ranks);
  Problem gap = make_finding(ProblemId::rank_missing, Severity::kWarning, {.path = path});
  for (uint32_t r = 0; r < ranks.size() && gap.got.empty(); ++r)
    if (ranks[r] != r) gap.got = "no __" + std::to_string(r) + ".metadata beside __" + std::to_string(ranks.back()) + ".metadata";
  if (options.prefer_rank) {
    const auto preferred = std::ranges::find(ranks, *options.prefer_rank);
    if (preferred == ranks.end())
      fail(ProblemId::usage, {.path = path, .setting = "prefer_rank"}, std::to_string(*options.prefer_rank), "a rank that is there");
    std::rotate(ranks.begin(), preferred, preferred + 1);
  }
  uint64_t all_bytes = 0;
  for (uint32_t r : ranks)
    if (const auto facts = store.facts(path + "/__" + std::to_string(r) + std::string(kMetadata))) all_bytes += facts->bytes;
  check_fits(all_bytes, path, options.limits);
  std::vector<std::vector<std::byte>> pickles;  // outlive their contents, which view them
  std::vector<MetadataContent> contents;
  for (uint32_t r : ranks) {
    const std::string name = "__" + std::to_string(r) + std::string(kMetadata), file = path + "/" + name;
    pickles.push_back(read_file_beneath(store, path, name, options.links, options.limits.metadata_bytes));
    if (is_lfs_pointer(pickles.back())) fail(ProblemId::lfs_pointer, {.path = file});
    if (auto binary = binary_form(pickles.back(), {.path = file}, options.limits)) pickles.back() = std::move(*binary);
    contents.push_back(read_dcp_metadata(pickles.back(), {.path = file}, options.limits));
  }
  const MetadataContent merged = merge_rank_local(contents, path);
  check_catalog_fits(merged, path, options.limits);
  OpenedCatalog opened = build_catalog(merged, path, path, CheckpointKind::kDcpRankLocal);
  if (!gap.got.empty()) opened.findings.push_back(std::move(gap));
  return opened;
}

constexpr std::string_view kExpected = "a DCP folder, a torch.save or safetensors file, or a folder of safetensors files";

bool is_checkpoint_folder(Store& store, const std::string& path) {
  return std::ranges::any_of(store.list(path),
                             [](const DirEntry& e) { return e.kind == FileKind::kRegular && describes_checkpoint(e.name); });
}

// Of the folder's own folders and of theirs (model and optimizer of each step), in natural order.
std::vector<std::string> checkpoints_in(Store& store, const std::string& path, unsigned levels = 2) {
  std::vector<std::string> found;
  for (const DirEntry& e : store.list(path)) {
    if (e.kind != FileKind::kDirectory || e.link) continue;
    const std::string child = path + "/" + e.name;
    if (is_checkpoint_folder(store, child)) found.push_back(child);
    else if (levels > 1) std::ranges::move(checkpoints_in(store, child, levels - 1), std::back_inserter(found));
  }
  std::ranges::sort(found, NaturalLess());
  return found;
}

bool is_torch_name(std::string_view name) {
  return name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".bin") || name.ends_with(".ckpt");
}

// What other program wrote the folder, or those in it.
Foreign foreign_of(Store& store, const std::string& path, const std::vector<DirEntry>& entries, const std::vector<std::string>& names) {
  Foreign foreign = foreign_folder(names);
  for (const DirEntry& e : entries) {
    if (!foreign.what.empty()) break;
    if (e.kind != FileKind::kDirectory || e.link) continue;
    std::vector<std::string> below;
    for (DirEntry& inner : store.list(path + "/" + e.name)) below.push_back(std::move(inner.name));
    foreign = foreign_folder(below);
  }
  return foreign;
}

bool has_distinct_steps(Store& store, const std::string& path) {
  const std::vector<Step> steps = steps_of(store, path, "");
  return !steps.empty() && std::ranges::adjacent_find(steps, {}, &Step::number) == steps.end();
}

[[noreturn]] void refuse_folder(Store& store, const std::string& path, const std::vector<DirEntry>& entries) {
  std::vector<std::string> names, torch_files;
  bool unfinished = false, shards = false;
  for (const DirEntry& e : entries) {
    if (e.kind == FileKind::kRegular && is_torch_name(e.name)) torch_files.push_back(path + "/" + e.name);
    unfinished = unfinished || e.name == ".metadata.tmp";
    shards = shards || e.name.ends_with(".distcp");
    names.push_back(e.name);
  }
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  Problem p = make_problem(ProblemId::not_checkpoint, {.path = path}, {}, std::string(kExpected));
  const Foreign foreign = foreign_of(store, path, entries, names);
  if (auto checkpoints = checkpoints_in(store, path); !checkpoints.empty()) {
    const auto others = std::ranges::stable_partition(checkpoints, [&](const auto& c) { return c.find("optim", path.size()) == c.npos; });
    p.got = "a folder of checkpoints";
    const bool apart = !others.empty() && others.begin() == checkpoints.begin() + 1;  // accelerate saves a model and its optimizer apart
    p.hint = apart ? "the model is in " + checkpoints.front() + ", its optimizer in " + joined({others.begin(), others.end()})
                   : "give one of them: " + joined(checkpoints);
    if (!apart && has_distinct_steps(store, path)) {
      p.remedy = Remedy::kOneOrLatest;
      p.names = std::move(checkpoints);
    }
  } else if (!foreign.what.empty()) {
    p.got = foreign.what;
    p.hint = foreign.hint;
  } else if (unfinished || shards) {
    p.got = unfinished ? ".metadata.tmp but no .metadata" : ".distcp files but no .metadata";
    p.hint = "the save did not finish: use an earlier step";
  } else if (has("snapshots") && has("blobs")) {
    p.got = "a model of the Hugging Face cache";
    p.hint = "give one of the folders in " + path + "/snapshots";
  } else if (has("sharded")) {
    p.got = "a folder whose consolidation did not finish";
    p.hint = "give " + path + "/sharded";
  } else if (has("pytorch_model.bin.index.json")) {
    p.got = "torch.save shards with an index";
    p.hint = "write them anew as safetensors with transformers: save_pretrained";
  } else if (!torch_files.empty()) {
    p.got = "a folder with torch.save files";
    p.hint = "give one of them: " + joined(torch_files);
  } else {
    p.got = names.empty() ? "an empty folder" : "a folder with " + joined(names);
  }
  throw Error(std::move(p));
}

// A folder without `.metadata`: rank-local metadata, safetensors files, or something else.
OpenedCatalog read_other_folder(Store& store, const std::string& path, const OpenOptions& options) {
  std::vector<uint32_t> ranks;
  bool safetensors = false, of_ranks = false, of_checkpointing = false;
  const std::vector<DirEntry> entries = store.list(path);
  for (const DirEntry& e : entries) {
    if (const auto rank = rank_of(e.name)) ranks.push_back(*rank);
    of_ranks = of_ranks || is_rank_file(e.name);
    of_checkpointing = of_checkpointing || e.name == kTorchCheckpointingMetadata;
    safetensors =
        safetensors || (e.kind != FileKind::kDirectory && (e.name.ends_with(kSafetensorsEnding) || e.name.ends_with(kIndexEnding)));
  }
  if (!ranks.empty()) return read_rank_local(store, path, std::move(ranks), options);
  if (of_ranks) return open_torch_ranks(store, path, entries, options);
  if (of_checkpointing) return open_torch_checkpointing(store, path, entries, options);
  if (safetensors) return open_safetensors_folder(store, path, entries, index_of(path, entries), options);
  refuse_folder(store, path, entries);
}

// By content; the name decides only about a safetensors file whose beginning is damaged.
OpenedCatalog read_file_of_any_kind(Store& store, const std::string& path, uint64_t bytes, const OpenOptions& options) {
  if (path.ends_with(".distcp")) {  // archives back to back: its content says as little as its name
    Problem p = make_problem(ProblemId::not_checkpoint, {.path = path}, "a data file of a DCP checkpoint", "the folder that it is in");
    throw Error(std::move(p));
  }
  std::vector<std::byte> head(std::min(bytes, kForeignBytes));
  {
    const OpenFile file(store, store.open_read(path));
    read_exact(store, file.get(), 0, head);
  }
  if (is_lfs_pointer(head)) fail(ProblemId::lfs_pointer, {.path = path});
  if (begins_like_safetensors(head, bytes)) return open_safetensors_file(store, path, options);
  const Foreign foreign = foreign_file(head);
  if (is_archive(head)) return open_torch_file(store, path, options);
  if (foreign.what.empty() && path.ends_with(kSafetensorsEnding)) return open_safetensors_file(store, path, options);
  Problem p = make_problem(ProblemId::not_checkpoint, {.path = path},
                           foreign.what.empty() ? "a file of another kind" : std::string(foreign.what), std::string(kExpected));
  p.hint = foreign.hint;
  throw Error(std::move(p));
}

// What a clone has in place of a large file that Git LFS did not fetch.
void refuse_lfs_pointer(Store& store, Handle file, uint64_t bytes) {
  if (bytes > kLfsPointerBytes) return;
  std::vector<std::byte> text(bytes);
  read_exact(store, file, 0, text);
  if (is_lfs_pointer(text)) fail(ProblemId::lfs_pointer, {.path = store.name_of(file)});
}

}  // namespace

bool describes_checkpoint(std::string_view name) {
  return name.ends_with(kMetadata) || name.ends_with(kSafetensorsEnding) || name.ends_with(kIndexEnding) || is_rank_file(name) ||
         name == kTorchCheckpointingMetadata;
}

OpenedCatalog open_checkpoint(Store& store, const std::string& given, const OpenOptions& options) {
  std::string path = given;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::optional<FileFacts> facts = store.facts(path);
  if (!facts) fail(ProblemId::no_such_path, {.path = path});
  if (facts->kind == FileKind::kDirectory) {
    const std::string file = path + "/" + std::string(kMetadata);
    if (!store.facts(file)) return read_other_folder(store, path, options);
    return read_metadata(store, file, path, path, options);
  }
  const std::filesystem::path name(path);
  const std::string parent = name.parent_path().empty() ? "." : name.parent_path().string();
  if (name.filename() == kMetadata) return read_metadata(store, path, path, parent, options);
  if (facts->kind != FileKind::kRegular) fail(ProblemId::not_checkpoint, {.path = path}, "no regular file", std::string(kExpected));
  if (path.ends_with(kIndexEnding)) return open_safetensors_folder(store, parent, store.list(parent), name.filename(), options);
  return read_file_of_any_kind(store, path, facts->bytes, options);
}

void look_at_files(Store& store, Catalog& catalog, FollowLinks links) {
  for (uint32_t n = 0; n < catalog.files.size(); ++n) {
    DataFile& f = catalog.files[n];
    try {
      const std::optional<Handle> handle = open_data_file(store, catalog, n, links);
      if (!handle) continue;
      const OpenFile open(store, *handle);
      const uint64_t bytes = store.facts(*handle).bytes;
      refuse_lfs_pointer(store, *handle, bytes);
      f.bytes = bytes;
    } catch (const Error& error) {  // a link, a FIFO, no permission: reported to whoever needs an item in it
      f.fault = std::make_shared<const Problem>(error.problem());
    }
  }
}

namespace {

Problem hole_or_overlap(const Catalog& catalog, const Tensor& t, const CoverProblem& c) {
  const Place place{.path = catalog.path, .tensor = std::string(catalog.key(t))};
  switch (c.fault) {
    case CoverFault::kHole: return make_problem(ProblemId::tensor_hole, place, slice_text(c.offsets, c.sizes) + " in no chunk");
    case CoverFault::kOutside: {
      size_t d = 0;
      while (c.offsets[d] + c.sizes[d] <= catalog.dims(t)[d]) ++d;
      return make_problem(ProblemId::chunk_outside, place,
                          "dim " + std::to_string(d) + ": " + std::to_string(c.offsets[d]) + " + " + std::to_string(c.sizes[d]),
                          "at most " + std::to_string(catalog.dims(t)[d]));
    }
    case CoverFault::kOverlap: return make_problem(ProblemId::chunks_overlap, place, slice_text(c.offsets, c.sizes) + " in two chunks");
    case CoverFault::kTooComplex: break;
  }
  return make_problem(ProblemId::chunks_too_complex, place, std::to_string(t.chunk_count) + " chunks");
}

// nullopt: the slice lies inside its file.
std::optional<Problem> slice_fault(const Catalog& catalog, const Item& i, const Place& place, const std::string& what) {
  const std::optional<uint64_t> bytes = catalog.files[i.file].bytes;
  if (const auto& fault = catalog.files[i.file].fault) {
    Problem p = *fault;
    if (p.id == ProblemId::file_unseen) p.place.tensor = place.tensor, p.place.object = place.object;
    return p;
  }
  if (!bytes) return make_problem(ProblemId::file_missing, place, what);
  if (i.offset > *bytes || i.length > *bytes - i.offset)
    return make_problem(ProblemId::item_past_end, place, "a file of " + std::to_string(*bytes) + " bytes",
                        "at least " + std::to_string(i.offset + i.length));
  return std::nullopt;
}

// nullopt: the item is where the metadata says.
std::optional<Problem> item_fault(const Catalog& catalog, ItemId item, std::string_view key, const std::string& what) {
  const Item& i = catalog.items[item];
  const Place place = catalog.place_of(item, key);
  if (i.file == kNone) return make_problem(ProblemId::chunk_without_item, place, what);
  if (std::ranges::binary_search(catalog.named_twice, item))
    return make_problem(ProblemId::item_twice, {.path = catalog.path, .tensor = place.tensor, .object = place.object}, what);
  return slice_fault(catalog, i, place, what);
}

std::string chunk_words(const Catalog& catalog, const Tensor& t, uint32_t c) {
  return "chunk " + slice_text(catalog.box(t, c).offsets, catalog.box(t, c).sizes);
}

}  // namespace

std::vector<Problem> structure_findings(const OpenedCatalog& opened) {
  const Catalog& catalog = opened.catalog;
  std::vector<Problem> all = opened.findings;
  FindingList findings(all);
  const auto add = [&](Problem p) {
    p.severity = Severity::kDamage;
    findings.add(std::move(p));
  };
  const auto has_no_one_item = [&](ItemId item) {
    return catalog.items[item].file == kNone || std::ranges::binary_search(catalog.named_twice, item);
  };
  for (const Problem& p : opened.unloadable) add(p);
  for (const Tensor& t : catalog.tensors) {
    if (const auto fault = check_cover(catalog, t)) add(hole_or_overlap(catalog, t, *fault));
    for (uint32_t c = 0; c < t.chunk_count; ++c)
      if (has_no_one_item(catalog.item_of(t, c)) && volume(catalog.box(t, c).sizes) > 0)
        add(*item_fault(catalog, catalog.item_of(t, c), catalog.key(t), chunk_words(catalog, t, c)));
  }
  for (BlobId b = 0; b < catalog.blobs.size(); ++b)
    if (has_no_one_item(catalog.item_of(b))) add(*item_fault(catalog, catalog.item_of(b), catalog.key(catalog.blobs[b]), ""));
  // One finding a file and not one an item: a missing file may hold 10^5 items.
  std::vector<uint64_t> needed(catalog.files.size(), 0);
  for (const Item& i : catalog.items)
    if (i.file != kNone) needed[i.file] = std::max(needed[i.file], i.offset + i.length);
  for (uint32_t f = 0; f < catalog.files.size(); ++f) {
    const std::optional<uint64_t> bytes = catalog.files[f].bytes;
    const Place place{.path = catalog.file_path(f)};
    if (catalog.files[f].fault) add(*catalog.files[f].fault);
    else if (!bytes) add(make_problem(ProblemId::file_missing, place));
    else if (*bytes < needed[f])
      add(make_problem(ProblemId::item_past_end, place, "a file of " + std::to_string(*bytes) + " bytes",
                       "at least " + std::to_string(needed[f])));
  }
  findings.end();
  return all;
}

namespace {

[[noreturn]] void fail_with(Problem finding) {
  finding.severity = Severity::kError;
  throw Error(std::move(finding));
}

}  // namespace

void check_opened(const OpenedCatalog& opened, const std::function<bool(std::string_view key)>& is_left_out) {
  for (const Problem& p : opened.findings)
    if (p.severity == Severity::kDamage && (p.place.tensor.empty() || !is_left_out(p.place.tensor))) fail_with(p);
}

void check_slice(const Catalog& catalog, const Item& slice, Place place, const std::string& what) {
  if (auto fault = slice_fault(catalog, slice, place, what)) throw Error(std::move(*fault));
}

void check_item(const Catalog& catalog, ItemId item, std::string_view key, const std::string& what) {
  if (auto fault = item_fault(catalog, item, key, what)) throw Error(std::move(*fault));
}

void check_whole(const Catalog& catalog, const Tensor& t) {
  const Place place{.path = catalog.path, .tensor = std::string(catalog.key(t))};
  if (!t.strided) fail(ProblemId::layout_not_strided, place, std::string(catalog.strings[t.dtype_name]));
  if (!t.dtype_known) fail(ProblemId::dtype_unknown, place, std::string(catalog.strings[t.dtype_name]));
  if (const auto fault = check_cover(catalog, t)) throw Error(hole_or_overlap(catalog, t, *fault));
  for (uint32_t c = 0; c < t.chunk_count; ++c)
    if (volume(catalog.box(t, c).sizes) > 0) check_item(catalog, catalog.item_of(t, c), catalog.key(t), chunk_words(catalog, t, c));
}

}  // namespace dcp
