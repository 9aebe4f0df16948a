#include "app/edit.h"

#include <algorithm>
#include <set>

#include "app/copy_pieces.h"
#include "app/memory.h"
#include "app/open_files.h"
#include "app/output_in_source.h"
#include "app/parts.h"
#include "base/checked.h"
#include "base/file_names.h"
#include "base/stores.h"
#include "catalog/data_files.h"
#include "files/metadata_swap.h"
#include "files/output_free.h"
#include "items/duplicates.h"
#include "items/item_source.h"
#include "plan/plan_metadata.h"

namespace dcp {
namespace {

class Editing {
 public:
  Editing(const EditRequest& request, World& world, EditResult& result)
      : request_(request), world_(world), result_(result), cap_(take_memory_cap(request.max_memory, world)) {}

  void open() {
    SourceRequest source = request_.source;
    source.itself = request_.out.empty();  // what is changed where it lies is named by itself
    result_.opened = open_source(source, world_, memory_left(cap_));
    const Catalog& catalog = result_.catalog();
    note_warnings(*result_.opened, world_);
    if (catalog.single_file || !catalog.traits().has_metadata) refuse_kind();
    if (!request_.out.empty()) refuse_source(request_.out, catalog);
    files_.emplace(world_.store, catalog, request_.source.links(), open_file_shares().inputs);
  }

  void plan() {
    const Catalog& catalog = result_.catalog();
    result_.selection = select_keys(catalog, request_.select);
    check_whole(catalog, result_.selection);
    if (!request_.source.prefer_rank) compare_copies();
    result_.edited = plan_edit(catalog, result_.selection, request_.torch);
    result_.metadata_bytes = metadata_bytes(result_.edited, catalog);
    std::set<uint32_t> used;
    for (const EditedFile& f : result_.edited.files) used.insert(f.source);
    for (uint32_t f = 0; f < catalog.files.size(); ++f) {
      if (used.contains(f)) continue;
      result_.unneeded.emplace_back(catalog.file_name(f));
      result_.unneeded_bytes += catalog.files[f].bytes.value_or(0);
    }
  }

  // What FileSet meets next, for a dry run.
  void check_room() const {
    const Catalog& catalog = result_.catalog();
    if (request_.out.empty())
      return check_output_room(world_.io, catalog.folder + "/.metadata", false, Replace::kYes, result_.metadata_bytes);
    uint64_t needed = result_.metadata_bytes;
    if (!can_share())
      for (const OutputFile& f : result_.edited.plan.files) needed = add_or_fail(needed, f.bytes, {.path = request_.out});
    check_output_room(world_.io, request_.out, true, request_.replace, needed);
  }

  void write_in_place() {
    const Catalog& catalog = result_.catalog();
    MetadataSwap swap(world_.io, catalog.folder, request_.sync);
    swap.begin(result_.metadata_bytes);
    for (const std::string& found : swap.found()) world_.events.info(found);
    write_metadata([&](uint64_t at, Bytes bytes) { swap.write(at, bytes); });
    world_.check_stop();
    result_.original = swap.commit(request_.keep_original);
  }

  void write_folder() {
    const std::vector<OutputFile>& files = result_.edited.plan.files;
    std::vector<FileSpec> specs;
    for (size_t f = 0; f < files.size(); ++f)
      specs.push_back({.name = files[f].name, .bytes = files[f].bytes, .same_as = [this, f] { return source_of(f); }});
    specs.push_back({.name = ".metadata", .bytes = result_.metadata_bytes});
    FileSet set(world_.io, request_.out, std::move(specs),
                {.folder = true,
                 .replace = request_.replace,
                 .sync = request_.sync,
                 .open_files = open_file_shares().outputs,
                 .sharing = request_.sharing});
    for (const std::string& found : set.found()) world_.events.info(found);
    for (const std::string& note : set.notes()) world_.events.verbose(note);
    copy(set);
    const auto metadata = static_cast<uint32_t>(files.size());
    write_metadata([&](uint64_t at, Bytes bytes) { set.write(metadata, at, bytes); });
    set.finish();
    world_.check_stop();
    set.commit();
  }

 private:
  [[noreturn]] void refuse_kind() const {
    Problem p = make_problem(ProblemId::metadata_not_enough, {.path = result_.catalog().path}, "no DCP folder");
    p.remedy = Remedy::kConvert;
    throw Error(std::move(p));
  }

  // Files of two file systems never share their bytes.
  bool can_share() const {
    const auto device = [&](const std::string& folder) { return world_.io.facts(folder).value_or(FileFacts{}).id.device; };
    return request_.sharing != Sharing::kCopy &&
           device(folder_around(without_trailing_slashes(request_.out))) == device(result_.catalog().folder);
  }

  // Of rank-local checkpoints: only items that several ranks wrote are looked into.
  void compare_copies() {
    const Catalog& catalog = result_.catalog();
    if (catalog.duplicates.empty()) return;
    std::set<StringId> twice;
    for (const Duplicate& d : catalog.duplicates) twice.insert(d.key);
    std::vector<TensorId> tensors;
    std::vector<BlobId> blobs;
    for (const Entry& e : result_.selection.entries) {
      if (e.is_blob() && twice.contains(catalog.blobs[e.blob()].key)) blobs.push_back(e.blob());
      if (!e.is_blob() && twice.contains(catalog.tensors[e.tensor()].key)) tensors.push_back(e.tensor());
    }
    const ResolveOptions options{.workers = reading_workers(request_.threads, world_, request_.source.path),
                                 .blobs = BlobUse::kPickles,
                                 .limits = request_.source.limits(),
                                 .memory_bytes = memory_left(cap_),
                                 .memory_cap = cap_};
    const Resolved resolved = resolve(*files_, tensors, blobs, options, world_.stop);
    prove_duplicates({catalog, resolved}, contents_of(*files_, catalog, request_.source.limits()));
  }

  // None where it lies in a store that is not the one that is written into.
  OpenFile source_of(size_t file) {
    const uint32_t f = result_.edited.files[file].source;
    const std::optional<Handle> handle = open_data_file(world_.io, result_.catalog(), f, request_.source.links());
    return handle ? OpenFile(world_.io, *handle) : OpenFile();
  }

  // What could not be shared.
  void copy(FileSet& set) {
    constexpr uint64_t kPiece = 64 * kMiB;
    const std::vector<OutputFile>& files = result_.edited.plan.files;
    std::vector<CopyPiece> pieces;
    for (uint32_t f = 0; f < files.size(); ++f) {
      const auto sharing = static_cast<size_t>(set.sharing_of(f));
      ++result_.files_of[sharing];
      result_.bytes_of[sharing] += files[f].bytes;
      if (set.sharing_of(f) != Sharing::kCopy) continue;
      add_pieces(pieces, {.file = f, .bytes = files[f].bytes}, kPiece);
    }
    if (pieces.empty()) return;
    copy_pieces(pieces, reading_workers(request_.threads, world_, request_.source.path), world_.stop,
                [&](const CopyPiece& part, MutableBytes block) {
                  read_exact(world_.store, files_->open(result_.edited.files[part.file].source)->get(), part.from, block);
                  set.write(static_cast<uint32_t>(part.file), part.to, block);
                });
  }

  void write_metadata(const std::function<void(uint64_t, Bytes)>& write) {
    uint64_t at = 0;
    const auto sink = [&](std::string_view block) {
      write(at, as_bytes(block));
      at += block.size();
    };
    write_plan_metadata(result_.edited.plan, result_.catalog(), sink, ItemsAre::kAsStored);
  }

  const EditRequest& request_;
  World& world_;
  EditResult& result_;
  const uint64_t cap_;
  std::optional<DataFiles> files_;
};

}  // namespace

void edit(const EditRequest& request, World& world, EditResult& result, const std::function<void()>& planned) {
  const uint64_t begin = world.io.now_ns();
  if (request.out.empty()) check_on_disk(world.store, request.source.path);
  else check_output_free(world.io, request.out, true, request.replace);
  Editing editing(request, world, result);
  editing.open();
  editing.plan();
  planned();
  if (request.dry_run) return editing.check_room();
  if (request.out.empty()) editing.write_in_place();
  else editing.write_folder();
  result.nanoseconds = world.io.now_ns() - begin;
}

}  // namespace dcp
