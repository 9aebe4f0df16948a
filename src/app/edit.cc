#include "app/edit.h"

#include <algorithm>
#include <set>

#include "app/output.h"
#include "app/resources.h"
#include "base/checked.h"
#include "base/file_names.h"
#include "base/stores.h"
#include "files/metadata_swap.h"
#include "files/output_free.h"
#include "items/duplicates.h"
#include "items/item_source.h"
#include "plan/plan_metadata.h"

namespace dcp {
namespace {

// --- bytes that are copied as they are, by several workers

struct CopyPiece {
  size_t file = 0;  // the caller's file number
  uint64_t from = 0, to = 0, bytes = 0;
};

// `whole` in pieces of at most `max` bytes.
void add_pieces(std::vector<CopyPiece>& pieces, const CopyPiece& whole, uint64_t max) {
  for (uint64_t at = 0; at < whole.bytes; at += max)
    pieces.push_back({whole.file, whole.from + at, whole.to + at, std::min(max, whole.bytes - at)});
}

// copy(part, block) reads a part of a piece, at most 1 MiB, into a block of that size and writes it.
void copy_pieces(const std::vector<CopyPiece>& pieces, unsigned workers, const StopFlag& stop,
                 const std::function<void(const CopyPiece& part, MutableBytes block)>& copy) {
  std::vector<std::vector<std::byte>> buffers(workers);
  parallel_for(workers, pieces.size(), stop, [&](unsigned worker, uint64_t p) {
    std::vector<std::byte>& buffer = buffers[worker];
    buffer.resize(kMiB);
    std::vector<CopyPiece> parts;
    add_pieces(parts, pieces[p], kMiB);
    for (const CopyPiece& part : parts) copy(part, MutableBytes(buffer).first(part.bytes));
  });
}

void write_metadata(const EditedPlan& edited, const Catalog& catalog, const std::function<void(uint64_t, Bytes)>& write) {
  uint64_t at = 0;
  const auto sink = [&](std::string_view block) {
    write(at, as_bytes(block));
    at += block.size();
  };
  write_plan_metadata(edited.plan, catalog, sink, ItemsAre::kAsStored);
}

// --- other keys

class Editing {
 public:
  Editing(const EditRequest& request, World& world, EditResult& result) : request_(request), world_(world), result_(result) {
    ReadRequest read{.source = request.source, .ranks = {}, .max_memory = request.max_memory, .threads = request.threads};
    read.source.itself = request_.out.empty();  // what is changed where it lies is named by itself
    opened_ = open(read, begin_reading(read, world), world);
    result_.opened = opened_.found;
    const Catalog& catalog = result_.catalog();
    note_warnings(*result_.opened, world_);
    if (catalog.single_file || !catalog.traits().has_metadata) refuse_kind();
    if (!request_.out.empty()) refuse_source(request_.out, catalog);
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
    write_metadata(result_.edited, catalog, [&](uint64_t at, Bytes bytes) { swap.write(at, bytes); });
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
    write_metadata(result_.edited, result_.catalog(), [&](uint64_t at, Bytes bytes) { set.write(metadata, at, bytes); });
    set.finish();
    world_.check_stop();
    set.commit();
  }

 private:
  [[noreturn]] void refuse_kind() const {
    throw Error(
        with_remedy(make_problem(ProblemId::metadata_not_enough, {.path = result_.catalog().path}, "no DCP folder"), Remedy::kConvert));
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
    Parts parts;
    for (const Entry& e : result_.selection.entries) {
      if (e.is_blob() && twice.contains(catalog.blobs[e.blob()].key)) parts.blobs.push_back(e.blob());
      if (!e.is_blob() && twice.contains(catalog.tensors[e.tensor()].key)) parts.tensors.push_back(e.tensor());
    }
    const Resolved resolved = resolve(opened_, {.parts = parts}, world_);
    dcp::compare_copies(opened_, resolved, Faults::kThrow, world_);
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
                  read_exact(world_.store, opened_.files->open(result_.edited.files[part.file].source)->get(), part.from, block);
                  set.write(static_cast<uint32_t>(part.file), part.to, block);
                });
  }

  const EditRequest& request_;
  World& world_;
  EditResult& result_;
  Opened opened_;
};

}  // namespace

void edit(const EditRequest& request, World& world, EditResult& result, const std::function<void()>& planned) {
  const uint64_t begin = world.io.now_ns();
  if (request.out.empty()) check_on_disk(world.store, request.source.path);
  else check_output_free(world.io, request.out, true, request.replace);
  Editing editing(request, world, result);
  editing.plan();
  planned();
  if (request.dry_run) return editing.check_room();
  if (request.out.empty()) editing.write_in_place();
  else editing.write_folder();
  result.nanoseconds = world.io.now_ns() - begin;
}

// --- no training state

namespace {

// The model, without renaming its keys.
SelectOptions model_under_root() { return {.rules = {}, .model_only = true, .keep_root = true}; }

// Checks the CRCs of the model before it replaces the only copy of a checkpoint. Throws the first mismatch, and warns of the others.
void check_model_sums(const ReadRequest& request, World& world) {
  const Opened opened = open(request, begin_reading(request, world), world);
  Selected selected = select(opened, model_under_root(), {}, world);
  const Parts parts = check_selected(*opened.found, selected.selection, {.any_tensor = true});
  const Ready ready = make(opened, selected, resolve(opened, {.parts = parts}, world), {});
  const Plan plan = plan_dcp(ready.source(), selected.selection, layout_of_source(opened.catalog()));
  uint64_t planned = 0;
  PassingSink sink;
  execute_or_throw(plan, ready.source(), sink, {.workers = fit(opened, plan, kMiB, world, planned)}, world);
}

struct Compaction {
  FrozenCatalog opened;
  EditedPlan edited;
  std::vector<std::string> outdated;  // files that only the old metadata names
  uint64_t freed = 0;                 // bytes
};

Compaction plan_for(const DropRequest& request, World& world) {
  Compaction c{.opened = open_source(request.source, world, request.memory_bytes), .edited = {}, .outdated = {}};
  const Catalog& catalog = c.opened->catalog;
  const Selection selection = select_keys(catalog, model_under_root());
  check_whole(catalog, selection);
  std::vector<std::string> taken;
  for (const DirEntry& e : world.io.list(catalog.folder)) {
    taken.push_back(e.name);
    if (e.name.starts_with(".metadata.orig")) c.outdated.push_back(e.name);  // what it names is gone then
  }
  c.edited = plan_compaction(catalog, selection, {}, taken);
  std::set<std::string_view> named;
  for (const OutputFile& f : c.edited.plan.files) named.insert(f.name);
  for (uint32_t f = 0; f < catalog.files.size(); ++f) {
    if (named.contains(catalog.file_name(f))) continue;
    c.outdated.emplace_back(catalog.file_name(f));
    const std::optional<FileFacts> facts = world.store.facts(catalog.file_path(f));
    if (facts && facts->names == 1) c.freed += facts->bytes;
  }
  c.freed -= std::min(c.freed, c.edited.plan.bytes_to_write);
  return c;
}

class Compactor {
 public:
  Compactor(const DropRequest& request, World& world, Compaction& c) : request_(request), world_(world), c_(c) {}

  void run(MetadataSwap& swap) {
    swap.begin(metadata_bytes(c_.edited, c_.opened->catalog));
    for (const std::string& found : swap.found()) world_.events.info(found);
    write_metadata(c_.edited, c_.opened->catalog, [&](uint64_t at, Bytes bytes) { swap.write(at, bytes); });
    swap.metadata_is_complete();
    for (size_t f = 0; f < c_.edited.files.size(); ++f)
      if (!c_.edited.files[f].ranges.empty()) copy(f, swap);
    world_.check_stop();
    swap.commit_without(c_.outdated);
  }

 private:
  // The items that stay, back to back.
  void copy(size_t f, MetadataSwap& swap) {
    constexpr uint64_t kPiece = 8 * kMiB;
    const EditedFile& file = c_.edited.files[f];
    std::vector<CopyPiece> pieces;
    uint64_t to = 0;
    for (const EditedFile::Range& r : file.ranges) {
      add_pieces(pieces, {.from = r.from, .to = to, .bytes = r.bytes}, kPiece);
      to += r.bytes;
    }
    Io& io = world_.io;
    const std::optional<Handle> handle = open_data_file(io, c_.opened->catalog, file.source, request_.source.links());
    if (!handle) fail(ProblemId::file_missing, {.path = c_.opened->catalog.file_path(file.source)});
    const OpenFile source(io, *handle);
    const OpenFile target = swap.make_data_file(c_.edited.plan.files[f].name, to);
    const unsigned workers = static_cast<unsigned>(std::clamp<size_t>(pieces.size(), 1, wanted_workers(request_.threads, false)));
    copy_pieces(pieces, workers, world_.stop, [&](const CopyPiece& part, MutableBytes block) {
      read_exact(io, source.get(), part.from, block);
      write_all(io, target.get(), part.to, block, request_.sync ? Cache::kPass : Cache::kKeep);
    });
    if (request_.sync) io.sync(target.get());
  }

  const DropRequest& request_;
  World& world_;
  Compaction& c_;
};

// A step stays as old as it was, since its age decides whether it stays: whatever is newer afterwards gets the time of its newest file.
class StepTimes {
 public:
  StepTimes(const std::string& path, Io& io) : io_(io), inside_(io, io.open_folder(path)), folder_ns_(io.facts(inside_.get()).modified_ns) {
    for (const DirEntry& e : io.list(inside_.get()))
      if (const auto facts = io.facts(inside_.get(), e.name)) newest_ns_ = std::max(newest_ns_, facts->modified_ns);
  }
  StepTimes(const StepTimes&) = delete;
  StepTimes& operator=(const StepTimes&) = delete;
  ~StepTimes() {
    ignoring_errors([&] {
      for (const DirEntry& e : io_.list(inside_.get()))
        if (const auto facts = io_.facts(inside_.get(), e.name); facts && facts->modified_ns > newest_ns_)
          io_.set_modified(inside_.get(), e.name, newest_ns_);
      io_.set_modified(inside_.get(), ".", folder_ns_);
    });
  }

 private:
  Io& io_;
  const OpenFile inside_;
  const int64_t folder_ns_;
  int64_t newest_ns_ = 0;
};

}  // namespace

uint64_t freed_by_drop(const DropRequest& request, World& world) { return plan_for(request, world).freed; }

uint64_t drop_state(const DropRequest& request, World& world) {
  const StepTimes times(request.source.path, world.io);
  MetadataSwap swap(world.io, request.source.path, request.sync);
  check_model_sums({.source = request.source, .ranks = {}, .max_memory = request.memory_bytes, .threads = request.threads}, world);
  Compaction c = plan_for(request, world);
  Compactor(request, world, c).run(swap);
  return c.freed;
}

bool has_interrupted_drop(Io& io, const std::string& path) {
  for (const std::string_view ending : {kOld, kPartial, kLock})
    if (io.facts(path + "/" + beside(".metadata", ending))) return true;
  return io.facts(path + "/" + std::string(kLock)).has_value();
}

void finish_interrupted_drop(const std::string& path, World& world, bool sync) {
  const MetadataSwap swap(world.io, path, sync);
  for (const std::string& found : swap.found()) world.events.info(found);
}

}  // namespace dcp
