#include "files/metadata_swap.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/file_names.h"
#include "base/limits.h"
#include "catalog/kind.h"
#include "format/dcp_metadata.h"

namespace dcp {
namespace {

const std::string kMetadata = ".metadata";

void copy_file(Io& io, Handle from, Handle folder, const std::string& name, bool sync) {
  const OpenFile to(io, io.create(folder, name));
  try {
    std::vector<std::byte> buffer(kMiB);
    for (uint64_t at = 0;;) {
      const size_t n = io.read(from, at, buffer);
      if (n == 0) break;
      write_all(io, to.get(), at, Bytes(buffer).first(n));
      at += n;
    }
    if (sync) io.sync(to.get());
  } catch (...) {
    ignoring_errors([&] { io.remove_file(folder, name); });
    throw;
  }
}

// Gives a file another name, or makes a copy of that name.
void name_again(Io& io, Handle file, Handle folder, const std::string& name, bool sync) {
  if (!io.link(file, folder, name)) copy_file(io, file, folder, name, sync);
}

// The data files that a metadata file names; nullopt if it does not exist or cannot be read to its end.
std::optional<std::set<std::string>> files_named_by(Io& io, const std::string& folder, const std::string& name) {
  try {
    const std::optional<Handle> handle = io.open_beneath(folder, name, FollowLinks::kCacheOnly);
    if (!handle) return std::nullopt;
    const OpenFile file(io, *handle);
    const std::vector<std::byte> bytes = read_file(io, *handle, Limits{}.metadata_bytes);
    const MetadataContent content = read_dcp_metadata(bytes, {.path = folder + "/" + name}, {});
    return std::set<std::string>(content.files.begin(), content.files.end());
  } catch (const Error& e) {
    if (class_of(e.problem().id) != ProblemClass::kInput) throw;
    return std::nullopt;
  }
}

}  // namespace

MetadataSwap::MetadataSwap(Io& io, const std::string& folder, bool sync)
    : io_(io), path_(folder), sync_(sync), inside_(io, io.open_folder(folder)), claim_(io, inside_.get(), std::string(kLock)) {
  if (!claim_.is_ours()) fail(ProblemId::output_busy, {.path = folder});
  for (const std::string_view ending : {kPartial, kOld}) recover(beside(kMetadata, ending));
  const ClaimedName left(io, inside_.get(), beside(kMetadata, kLock));  // removes a leftover lock
}

// The metadata is removed before the data: if this is interrupted, the files belong to no checkpoint and nobody needs them.
MetadataSwap::~MetadataSwap() {
  set_.reset();
  for (const std::string& name : made_) ignoring_errors([&] { io_.remove_file(inside_.get(), name); });
}

void MetadataSwap::recover(const std::string& working_name) {
  const std::optional<FileFacts> facts = io_.facts(inside_.get(), working_name);
  if (!facts) return;
  const uint32_t owner = io_.facts(inside_.get(), std::string(kLock)).value_or(FileFacts{}).owner;
  const auto named = files_named_by(io_, path_, working_name), needed = files_named_by(io_, path_, kMetadata);
  if (named && needed)
    for (const std::string& name : *named) {
      if (needed->contains(name) || role_of(name) != FileRole::kData || name.find('/') != name.npos) continue;
      const std::optional<FileFacts> data = io_.facts(inside_.get(), name);
      if (!data || data->link || data->kind != FileKind::kRegular || data->owner != owner) continue;
      io_.remove_file(inside_.get(), name);
      found_.push_back("removed '" + escaped(path_ + "/" + name) + "', left by an interrupted run");
    }
  if (sync_) io_.sync_folder(inside_.get());
  remove_leftover(io_, {inside_.get(), working_name, *facts}, owner, Links::kNever);
  found_.push_back("removed '" + escaped(path_ + "/" + working_name) + "', left by an interrupted run");
}

void MetadataSwap::begin(uint64_t metadata_bytes) {
  set_.emplace(io_, path_ + "/" + kMetadata, std::vector<FileSpec>{{.name = "", .bytes = metadata_bytes}},
               FileSetOptions{.replace = Replace::kYes, .sync = sync_});
  std::ranges::copy(set_->found(), std::back_inserter(found_));
}

void MetadataSwap::metadata_is_complete() {
  set_->finish();
  if (sync_) io_.sync_folder(inside_.get());
}

OpenFile MetadataSwap::make_data_file(const std::string& name, uint64_t bytes) {
  made_.reserve(made_.size() + 1);
  OpenFile file(io_, io_.create(inside_.get(), name));
  made_.push_back(name);
  io_.allocate(file.get(), bytes);
  return file;
}

// Whether the old metadata still has its name. A failed commit may or may not have renamed the new one.
bool MetadataSwap::is_still(const FileFacts& old) noexcept {
  bool is = false;
  ignoring_errors([&] { is = is_named(io_, inside_.get(), kMetadata, old); });
  return is;
}

std::string MetadataSwap::commit(bool keep) {
  set_->finish();
  const OpenFile old = open_old();
  const FileFacts facts = old ? io_.facts(old.get()) : FileFacts{};
  const std::string kept = keep && old ? keep_original(old.get()) : "";
  try {
    set_->commit();
  } catch (...) {
    if (!kept.empty() && is_still(facts)) ignoring_errors([&] { io_.remove_file(inside_.get(), kept); });
    throw;
  }
  return kept;
}

void MetadataSwap::commit_without(const std::vector<std::string>& files) {
  const std::string aside = beside(kMetadata, kOld);
  const OpenFile old = open_old();
  if (!old) fail(ProblemId::file_missing, {.path = path_ + "/" + kMetadata});
  const FileFacts facts = io_.facts(old.get());
  name_again(io_, old.get(), inside_.get(), aside, sync_);
  if (sync_) io_.sync_folder(inside_.get());  // new data, and the old metadata's other name, before the new metadata gets its name
  // From here on the data may be needed: if the commit is interrupted, the next run finds any surplus.
  std::vector<std::string> made = std::exchange(made_, {});
  try {
    set_->commit();
  } catch (...) {
    if (is_still(facts)) {
      made_ = std::move(made);
      ignoring_errors([&] { io_.remove_file(inside_.get(), aside); });
    }
    throw;
  }
  for (const std::string& name : files) io_.remove_file(inside_.get(), name);
  if (sync_) io_.sync_folder(inside_.get());  // as long as a power loss may bring one back, the next run must see that it is ours
  io_.remove_file(inside_.get(), aside);
  if (sync_) io_.sync_folder(inside_.get());
}

OpenFile MetadataSwap::open_old() {
  const std::optional<Handle> handle = io_.open_beneath(path_, kMetadata, FollowLinks::kAll);
  return handle ? OpenFile(io_, *handle) : OpenFile();
}

// Uses the first free name of `.metadata.orig`, `.metadata.orig.1` and so on, so no save's metadata is ever lost. If an interrupted run has
// already made the name, it is the same file.
std::string MetadataSwap::keep_original(Handle old) {
  const FileFacts facts = io_.facts(old);
  for (uint64_t n = 0;; ++n) {
    const std::string name = kMetadata + ".orig" + (n == 0 ? "" : "." + std::to_string(n));
    if (is_named(io_, inside_.get(), name, facts)) return name;
    if (io_.facts(inside_.get(), name)) continue;
    name_again(io_, old, inside_.get(), name, sync_);
    return name;
  }
}

}  // namespace dcp
