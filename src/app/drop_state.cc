#include "app/drop_state.h"

#include <algorithm>
#include <set>

#include "app/copy_pieces.h"
#include "app/memory.h"
#include "app/model_sums.h"
#include "app/open_files.h"
#include "app/parts.h"
#include "base/file_names.h"
#include "catalog/data_files.h"
#include "files/metadata_swap.h"
#include "plan/edited_metadata.h"
#include "plan/plan_metadata.h"
#include "select/select.h"

namespace dcp {
namespace {

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
  for (const DirEntry& e : world.io.list(catalog.folder)) taken.push_back(e.name);
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
    uint64_t at = 0;
    const auto sink = [&](std::string_view block) {
      swap.write(at, as_bytes(block));
      at += block.size();
    };
    write_plan_metadata(c_.edited.plan, c_.opened->catalog, sink, ItemsAre::kAsStored);
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
