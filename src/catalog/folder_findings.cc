#include "catalog/folder_findings.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "base/working_names.h"
#include "catalog/data_files.h"

namespace dcp {
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
