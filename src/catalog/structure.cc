#include "catalog/structure.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "base/file_names.h"
#include "base/workers.h"
#include "catalog/cover.h"
#include "catalog/data_files.h"

namespace dcp {
namespace {

// A clone has a pointer in place of each large file that Git LFS did not fetch.
void refuse_lfs_pointer(Store& store, Handle file, uint64_t bytes) {
  if (bytes > kLfsPointerBytes) return;
  std::vector<std::byte> text(bytes);
  read_exact(store, file, 0, text);
  if (is_lfs_pointer(text)) fail(ProblemId::lfs_pointer, {.path = store.name_of(file)});
}

}  // namespace

std::vector<FileLook> look_at_files(Store& store, const Catalog& catalog, FollowLinks links) {
  std::vector<FileLook> found(catalog.files.size());
  const StopFlag never{0};
  const unsigned at_once = std::max(1u, store.read_capabilities(catalog.folder).requests);
  parallel_for(at_once, found.size(), never, [&](unsigned, uint64_t n) {
    try {
      const std::optional<Handle> handle = open_data_file(store, catalog, static_cast<uint32_t>(n), links);
      if (!handle) return;
      const OpenFile open(store, *handle);
      const FileFacts facts = store.facts(*handle);
      refuse_lfs_pointer(store, *handle, facts.bytes);
      found[n] = {.bytes = facts.bytes, .inode = facts.id.inode, .modified_ns = facts.modified_ns, .fault = nullptr};
    } catch (const Error& error) {  // a link, a FIFO, no permission: reported to whoever needs an item in it
      found[n].fault = std::make_shared<const Problem>(error.problem());
    }
  });
  return found;
}

FrozenCatalog freeze(OpenedCatalog opened, std::span<const FileLook> found) {
  for (uint32_t n = 0; n < found.size(); ++n) {
    DataFile& f = opened.catalog.files[n];
    f.bytes = found[n].bytes;
    f.fault = found[n].fault;
  }
  return std::make_shared<const OpenedCatalog>(std::move(opened));
}

FrozenCatalog freeze(OpenedCatalog opened, Store& store, FollowLinks links) {
  const std::vector<FileLook> found = look_at_files(store, opened.catalog, links);
  return freeze(std::move(opened), found);
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
  const DataFile& file = catalog.files[i.file];
  if (file.reaches(i)) return std::nullopt;
  if (const auto& fault = file.fault) {
    Problem p = *fault;
    if (p.id == ProblemId::file_unseen) p.place.tensor = place.tensor, p.place.object = place.object;
    return p;
  }
  if (!file.bytes) return make_problem(ProblemId::file_missing, place, what);
  return make_problem(ProblemId::item_past_end, place, "a file of " + std::to_string(*file.bytes) + " bytes",
                      "at least " + std::to_string(i.offset + i.length));
}

// Whether the item is exactly one slice of one file.
bool has_one_place(const Catalog& catalog, ItemId item) {
  return catalog.items[item].file != kNone && !std::ranges::binary_search(catalog.named_twice, item);
}

bool is_where_it_should_be(const Catalog& catalog, ItemId item) {
  const Item& i = catalog.items[item];
  return has_one_place(catalog, item) && catalog.files[i.file].reaches(i);
}

// nullopt: the item exists where the metadata says.
std::optional<Problem> item_fault(const Catalog& catalog, ItemId item, std::string_view key, const std::string& what) {
  const Item& i = catalog.items[item];
  const Place place = catalog.place_of(item, key);
  if (i.file == kNone) return make_problem(ProblemId::chunk_without_item, place, what);
  if (!has_one_place(catalog, item))
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
  for (const Problem& p : opened.unloadable) add(p);
  std::set<std::string_view> known;  // keys about which ranks contradict each other: what is missing follows from that
  for (const Problem& p : opened.findings)
    if (catalog.traits().of_ranks && p.severity == Severity::kDamage) {
      known.insert(p.keys.begin(), p.keys.end());
      if (!p.place.tensor.empty()) known.insert(p.place.tensor);
    }
  for (const Tensor& t : catalog.tensors) {
    if (known.contains(catalog.key(t))) continue;
    if (const auto fault = check_cover(catalog, t)) add(hole_or_overlap(catalog, t, *fault));
    for (uint32_t c = 0; c < t.chunk_count; ++c)
      if (!has_one_place(catalog, catalog.item_of(t, c)) && volume(catalog.box(t, c).sizes) > 0)
        add(*item_fault(catalog, catalog.item_of(t, c), catalog.key(t), chunk_words(catalog, t, c)));
  }
  for (BlobId b = 0; b < catalog.blobs.size(); ++b)
    if (!known.contains(catalog.key(catalog.blobs[b])) && !has_one_place(catalog, catalog.item_of(b)))
      add(*item_fault(catalog, catalog.item_of(b), catalog.key(catalog.blobs[b]), ""));
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

bool has_its_bytes(const Catalog& catalog, KeyRef key) {
  const auto is_there = [&](ItemId id) {
    const Item& item = catalog.items[id];
    return item.file == kNone || catalog.files[item.file].reaches(item);
  };
  if (key.is_blob()) return is_there(catalog.item_of(key.blob()));
  const Tensor& t = catalog.tensors[key.tensor()];
  for (uint32_t c = 0; c < t.chunk_count; ++c)
    if (!is_there(catalog.item_of(t, c))) return false;
  return true;
}

bool tells_unseen_shards(const Problem& finding) {
  return finding.id == ProblemId::shard_gap || finding.id == ProblemId::shard_count_unknown;
}

void check_opened(const OpenedCatalog& opened, const std::function<bool(std::string_view key)>& is_left_out) {
  const auto concerns_none = [&](const Problem& p) {
    return p.keys.empty() ? !p.place.tensor.empty() && is_left_out(p.place.tensor) : std::ranges::all_of(p.keys, is_left_out);
  };
  std::vector<Problem> faults;
  for (const Problem& p : opened.findings)
    if (p.severity == Severity::kDamage && !concerns_none(p) && (faults.empty() || p.id == faults[0].id)) faults.push_back(p);
  if (faults.empty()) return;
  constexpr size_t kNamed = 10;  // keys of one kind of damage, so that they can be left out at once
  Problem& first = faults[0];
  if (first.got.empty() && !first.place.tensor.empty())
    for (size_t i = 1; i < std::min(faults.size(), kNamed); ++i) first.got += (i == 1 ? "also " : ", ") + shortened(faults[i].place.tensor);
  for (const Problem& p : opened.findings)
    if (p.id == ProblemId::unfinished_save) first.hint = p.what + "; " + p.hint;
  fail_with(std::move(first));
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
    if (const ItemId item = catalog.item_of(t, c); volume(catalog.box(t, c).sizes) > 0 && !is_where_it_should_be(catalog, item))
      check_item(catalog, item, catalog.key(t), chunk_words(catalog, t, c));  // words for 10^5 chunks would take time
}

namespace {

// Copying and clocks of several hosts cause small differences in time, which mean nothing. A save that was cut short is a training step
// later.
constexpr int64_t kClockNs = 60'000'000'000;

std::string range_text(const Item& i) { return "bytes " + std::to_string(i.offset) + " to " + std::to_string(i.offset + i.length); }

Problem odd(ProblemId id, Severity severity, std::string path, std::string got = {}) {
  return make_finding(id, severity, {.path = std::move(path)}, std::move(got));
}

class Folder {
 public:
  Folder(Store& store, const Catalog& catalog) : store_(store), catalog_(catalog) {
    for (uint32_t f = 0; f < catalog.files.size(); ++f) {
      named_.insert(catalog.file_name(f));
      if (const auto rank = rank_of_file(catalog.file_name(f))) highest_rank_ = std::max(highest_rank_.value_or(0), *rank);
    }
  }

  std::vector<Problem> run() {
    if (catalog_.single_file) {  // the other files in the folder are not part of it
      look_beside(catalog_.path);
      return std::move(found_);
    }
    for (const DirEntry& e : store_.list(catalog_.folder)) entry(e.name);
    look_beside(catalog_.folder);
    ages();
    return std::move(found_);
  }

 private:
  void entry(const std::string& name) {
    const std::string path = catalog_.folder + "/" + name;
    const FileRole role = role_of(name);
    if (role == FileRole::kUnfinished) found_.push_back(odd(ProblemId::unfinished_save, Severity::kWarning, path));
    else if (is_working_name(name)) found_.push_back(odd(ProblemId::unfinished_output, Severity::kWarning, path));
    else if (role == FileRole::kData && !named_.contains(name) && holds_something(path))
      found_.push_back(odd(ProblemId::orphan_file, Severity::kWarning, path, orphan_text(name)));
  }

  // torch makes a file for each rank, even for one that has nothing to write.
  bool holds_something(const std::string& path) const {
    const auto facts = store_.facts(path);
    return !facts || facts->kind != FileKind::kRegular || facts->bytes > 0;
  }

  std::string orphan_text(std::string_view name) const {
    const std::optional<uint32_t> rank = rank_of_file(name);
    if (!rank || !highest_rank_ || *rank <= *highest_rank_) return {};
    return "rank " + std::to_string(*rank) + ", and the metadata names files of ranks up to " + std::to_string(*highest_rank_);
  }

  // A partial output of the checkpoint itself lies beside it.
  void look_beside(std::filesystem::path checkpoint) {
    if (!scheme_of(checkpoint.native()).empty()) return;  // outputs are made on disks
    std::error_code ignored;
    if (checkpoint.filename().empty()) checkpoint = checkpoint.parent_path();  // typed with '/' at its end
    if (checkpoint.filename() == "." || checkpoint.filename() == "..") checkpoint = std::filesystem::canonical(checkpoint, ignored);
    for (const std::string_view ending : {kPartial, kOld}) {
      const std::string path = beside(checkpoint, ending);
      if (store_.facts(path)) found_.push_back(odd(ProblemId::unfinished_output, Severity::kWarning, path));
    }
  }

  void ages() {
    const KindTraits& traits = catalog_.traits();
    if (!traits.has_metadata || !traits.one_metadata) return;
    const std::optional<FileFacts> metadata = store_.facts(catalog_.folder + "/" + std::string(traits.metadata_ending));
    if (!metadata) return;
    for (uint32_t f = 0; f < catalog_.files.size(); ++f) {
      const std::optional<FileFacts> data = store_.facts(catalog_.file_path(f));
      if (!data || data->modified_ns - metadata->modified_ns <= kClockNs) continue;
      const int64_t seconds = (data->modified_ns - metadata->modified_ns) / 1'000'000'000;
      found_.push_back(
          odd(ProblemId::metadata_older, Severity::kNote, catalog_.file_path(f), std::to_string(seconds) + " seconds between them"));
      return;
    }
  }

  Store& store_;
  const Catalog& catalog_;
  std::set<std::string_view> named_;
  std::optional<uint32_t> highest_rank_;
  std::vector<Problem> found_;
};

}  // namespace

std::vector<Problem> find_overlapping_items(const Catalog& catalog) {
  if (catalog.traits().in_torch_files) return {};  // tensors of a torch.save file share storages, objects its pickle
  struct Slice {
    const Item* item;
    std::string_view key;
    bool object;
    auto place() const { return std::tuple(item->file, item->offset, item->length); }
  };
  std::vector<Slice> slices;
  for (ItemId i = 0; i < catalog.items.size(); ++i)
    if (catalog.items[i].file != kNone && catalog.items[i].length > 0)
      slices.push_back({&catalog.items[i], catalog.key_of_item(i), i >= catalog.chunk_total});
  for (const Duplicate& d : catalog.duplicates)
    if (!(d.other == catalog.items[d.item])) slices.push_back({&d.other, catalog.strings[d.key], d.item >= catalog.chunk_total});
  std::ranges::stable_sort(slices, {}, &Slice::place);
  std::vector<Problem> found;
  FindingList list(found);
  const Slice* reach = nullptr;  // the one before that reaches furthest
  for (const Slice& s : slices) {
    const bool same_file = reach != nullptr && reach->item->file == s.item->file;
    const uint64_t end = same_file ? reach->item->offset + reach->item->length : 0;
    if (same_file && s.item->offset < end && !(s.object && reach->object && s.place() == reach->place())) {
      Problem p = make_problem(ProblemId::items_overlap,
                               {.path = catalog.file_path(s.item->file),
                                .tensor = std::string(s.key),
                                .object = s.object,
                                .offset = s.item->offset,
                                .length = s.item->length},
                               range_text(*s.item) + ", and '" + std::string(reach->key) + "' has " + range_text(*reach->item));
      p.severity = Severity::kDamage;
      list.add(std::move(p));
    }
    if (!same_file || s.item->offset + s.item->length > end) reach = &s;
  }
  list.end();
  return found;
}

std::vector<Problem> inspect_folder(Store& store, const Catalog& catalog) { return Folder(store, catalog).run(); }

}  // namespace dcp
