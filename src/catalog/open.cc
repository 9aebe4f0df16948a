#include "catalog/open.h"

#include <filesystem>

#include "catalog/build.h"
#include "catalog/cover.h"
#include "format/dcp_metadata.h"

namespace dcp {
namespace {

constexpr std::string_view kMetadata = ".metadata";

bool ends_with_metadata(const std::string& path) { return std::filesystem::path(path).filename() == kMetadata; }

Catalog read_metadata(Io& io, const std::string& file, const std::string& path, const std::string& folder, const Limits& limits) {
  const std::vector<std::byte> bytes = read_file(io, file, limits.metadata_bytes);
  return build_catalog(read_dcp_metadata(bytes, {.path = file}, limits), path, folder);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 5; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > 5 ? text + ", ... (" + std::to_string(names.size()) + " in all)" : text;
}

// Says what the folder holds in place of a `.metadata`: the person who reads it has a crashed run or the wrong path.
[[noreturn]] void refuse_folder(Io& io, const std::string& path) {
  std::vector<std::string> checkpoints, names;
  bool unfinished = false, shards = false, rank_local = false;
  for (const DirEntry& e : io.list(path)) {
    if (e.kind == FileKind::kDirectory && io.facts(path + "/" + e.name + "/.metadata")) checkpoints.push_back(path + "/" + e.name);
    unfinished = unfinished || e.name == ".metadata.tmp";
    shards = shards || e.name.ends_with(".distcp");
    rank_local = rank_local || (e.name.starts_with("__") && e.name.ends_with(".metadata"));
    names.push_back(e.name);
  }
  Problem p = make_problem(ProblemId::not_checkpoint, {.path = path}, {}, "a folder with .metadata");
  if (!checkpoints.empty()) {
    p.got = "a folder of checkpoints";
    p.hint = "give one of them: " + joined(checkpoints);
  } else if (rank_local) {
    p.got = "rank-local metadata (__R.metadata), no .metadata";
    p.hint = "this version reads checkpoints that were saved with collectives";
  } else if (unfinished || shards) {
    p.got = unfinished ? ".metadata.tmp but no .metadata" : ".distcp files but no .metadata";
    p.hint = "the save did not finish: use an earlier step";
  } else {
    p.got = names.empty() ? "an empty folder" : "a folder with " + joined(names);
  }
  throw Error(std::move(p));
}

}  // namespace

Catalog open_checkpoint(Io& io, const std::string& given, const OpenOptions& options) {
  std::string path = given;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::optional<FileFacts> facts = io.facts(path);
  if (!facts) fail(ProblemId::no_such_path, {.path = path});
  if (facts->kind == FileKind::kDirectory) {
    const std::string file = path + "/" + std::string(kMetadata);
    if (!io.facts(file)) refuse_folder(io, path);
    return read_metadata(io, file, path, path, options.limits);
  }
  if (!ends_with_metadata(path)) fail(ProblemId::not_checkpoint, {.path = path}, "a file", "a checkpoint folder or its .metadata");
  const std::string parent = std::filesystem::path(path).parent_path();
  return read_metadata(io, path, path, parent.empty() ? "." : parent, options.limits);
}

void look_at_files(Io& io, Catalog& catalog, FollowLinks links) {
  for (DataFile& f : catalog.files) {
    const std::optional<Handle> handle = io.open_beneath(catalog.folder, catalog.strings[f.name], links);
    if (!handle) continue;
    const OpenFile open(io, *handle);
    f.bytes = io.facts(*handle).bytes;
  }
}

namespace {

Problem hole_or_overlap(const Catalog& catalog, const Tensor& t, const CoverProblem& c) {
  const Place place{.path = catalog.path, .tensor = std::string(catalog.key(t))};
  switch (c.fault) {
    case CoverFault::kHole: return make_problem(ProblemId::tensor_hole, place, slice_text(c.offsets, c.sizes) + " in no chunk");
    case CoverFault::kOverlap: return make_problem(ProblemId::chunks_overlap, place, slice_text(c.offsets, c.sizes) + " in two chunks");
    case CoverFault::kTooComplex: break;
  }
  return make_problem(ProblemId::chunks_too_complex, place, std::to_string(t.chunk_count) + " chunks");
}

// nullopt: the item is where the metadata says.
std::optional<Problem> item_fault(const Catalog& catalog, ItemId item, std::string_view key, const std::string& what) {
  const Item& i = catalog.items[item];
  const Place place = catalog.place_of(item, key);
  if (i.file == kNone) return make_problem(ProblemId::chunk_without_item, place, what);
  const std::optional<uint64_t> bytes = catalog.files[i.file].bytes;
  if (!bytes) return make_problem(ProblemId::file_missing, place, what);
  if (i.offset > *bytes || i.length > *bytes - i.offset)
    return make_problem(ProblemId::item_past_end, place, "a file of " + std::to_string(*bytes) + " bytes", "at least " + std::to_string(i.offset + i.length));
  return std::nullopt;
}

std::string chunk_words(const Catalog& catalog, const Tensor& t, uint32_t c) {
  return "chunk " + slice_text(catalog.box(t, c).offsets, catalog.box(t, c).sizes);
}

}  // namespace

void find_structure_faults(Catalog& catalog) {
  const auto add = [&](Problem p) {
    p.severity = Severity::kDamage;
    catalog.findings.push_back(std::move(p));
  };
  for (const Tensor& t : catalog.tensors) {
    if (const auto fault = check_cover(catalog, t)) add(hole_or_overlap(catalog, t, *fault));
    for (uint32_t c = 0; c < t.chunk_count; ++c)
      if (catalog.items[catalog.item_of(t, c)].file == kNone && volume(catalog.box(t, c).sizes) > 0)
        add(*item_fault(catalog, catalog.item_of(t, c), catalog.key(t), chunk_words(catalog, t, c)));
  }
  for (BlobId b = 0; b < catalog.blobs.size(); ++b)
    if (catalog.items[catalog.item_of(b)].file == kNone) add(*item_fault(catalog, catalog.item_of(b), catalog.key(catalog.blobs[b]), "byte item"));
  // One finding a file and not one an item: a missing file may hold 10^5 items.
  std::vector<uint64_t> needed(catalog.files.size(), 0);
  for (const Item& i : catalog.items)
    if (i.file != kNone) needed[i.file] = std::max(needed[i.file], i.offset + i.length);
  for (uint32_t f = 0; f < catalog.files.size(); ++f) {
    const std::optional<uint64_t> bytes = catalog.files[f].bytes;
    const Place place{.path = catalog.file_path(f)};
    if (!bytes) add(make_problem(ProblemId::file_missing, place));
    else if (*bytes < needed[f])
      add(make_problem(ProblemId::item_past_end, place, "a file of " + std::to_string(*bytes) + " bytes", "at least " + std::to_string(needed[f])));
  }
}

void check_item(const Catalog& catalog, ItemId item, std::string_view key, const std::string& what) {
  if (auto fault = item_fault(catalog, item, key, what)) throw Error(std::move(*fault));
}

void check_whole(const Catalog& catalog, const Tensor& t) {
  if (const auto fault = check_cover(catalog, t)) throw Error(hole_or_overlap(catalog, t, *fault));
  for (uint32_t c = 0; c < t.chunk_count; ++c)
    if (volume(catalog.box(t, c).sizes) > 0) check_item(catalog, catalog.item_of(t, c), catalog.key(t), chunk_words(catalog, t, c));
}

}  // namespace dcp
