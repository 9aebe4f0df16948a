#include "files/claim.h"

#include <algorithm>

#include "base/file_names.h"
#include "plan/assets.h"

namespace dcp {
namespace {

std::string path_in(Io& io, Handle folder, const std::string& name) {
  const std::string path = io.name_of(folder);
  return path.empty() ? name : path + (path.ends_with('/') ? "" : "/") + name;
}

[[noreturn]] void fail_foreign(Io& io, const Leftover& left, FileKind kind, uint32_t owner) {
  const auto text = [](bool link, FileKind k, uint32_t user) {
    const char* what = link                        ? "a link"
                       : k == FileKind::kRegular   ? "a file"
                       : k == FileKind::kDirectory ? "a folder"
                                                   : "neither a file nor a folder";
    return what + (" of user " + std::to_string(user));
  };
  fail(ProblemId::leftover_foreign, Place{.path = path_in(io, left.folder, left.name)},
       text(left.facts.link, left.facts.kind, left.facts.owner), text(false, kind, owner));
}

void remove_folder_of_files(Io& io, const Leftover& left, uint32_t owner, Links links) {
  const std::optional<Handle> handle = io.open_folder(left.folder, left.name);
  if (!handle) fail_foreign(io, left, FileKind::kDirectory, owner);
  const OpenFile folder(io, *handle);
  const FileFacts opened = io.facts(folder.get());
  if (opened.owner != owner) fail_foreign(io, {left.folder, left.name, opened}, FileKind::kDirectory, owner);
  const std::vector<DirEntry> entries = io.list(folder.get());
  for (const DirEntry& e : entries) {
    const std::optional<FileFacts> facts = io.facts(folder.get(), e.name);
    if (!facts) continue;
    const bool kind = facts->link ? links == Links::kMayBe : facts->kind == FileKind::kRegular;
    if (!kind || facts->owner != owner) fail_foreign(io, {folder.get(), e.name, *facts}, FileKind::kRegular, owner);
    if (!may_be_in_output(e.name) && !is_item_file(e.name)) {
      fail(ProblemId::leftover_foreign, Place{.path = path_in(io, folder.get(), e.name)}, "a file that is not part of a checkpoint");
    }
  }
  for (const DirEntry& e : entries) io.remove_file(folder.get(), e.name);
  if (!is_named(io, left.folder, left.name, opened)) fail_foreign(io, left, FileKind::kDirectory, owner);
  io.remove_folder(left.folder, left.name);
}

}  // namespace

// A holder removes the lock file before it releases the lock, so the file that was opened may have lost its name. It then protects nothing,
// and the file that now has the name is tried. Five rounds are enough: after the first, each needs another run to begin or end at that very
// moment.
OpenFile lock_output(Io& io, Handle folder, const std::string& name) {
  for (int round = 0; round < 5; ++round) {
    if (const std::optional<Handle> left = io.open_write(folder, name)) {
      const OpenFile file(io, *left);
      if (!io.try_lock(file.get())) return {};
      const FileFacts facts = io.facts(file.get());
      if (!is_named(io, folder, name, facts)) continue;
      if (facts.bytes > 0)
        fail(ProblemId::leftover_foreign, Place{.path = path_in(io, folder, name)}, "a file of " + std::to_string(facts.bytes) + " bytes",
             "an empty file");
      io.remove_file(folder, name);
    }
    try {
      OpenFile file(io, io.create(folder, name));
      try {
        if (io.try_lock(file.get()) && is_named(io, folder, name, io.facts(file.get()))) return file;
      } catch (...) {
        ignoring_errors([&] { io.remove_file(folder, name); });
        throw;
      }
    } catch (const Error& e) {
      if (e.problem().id != ProblemId::output_exists) throw;
    }
  }
  return {};
}

// The file is removed before its lock is released (lock_output says why).
ClaimedName::~ClaimedName() {
  if (lock_) ignoring_errors([&] { io_.remove_file(folder_, name_); });
}

bool is_item_file(std::string_view name) {
  constexpr std::string_view kEnding = ".pt";
  if (!name.ends_with(kEnding)) return false;
  name.remove_suffix(kEnding.size());
  const size_t bar = name.find_last_not_of("0123456789");
  return bar != name.npos && name[bar] == '_' && bar + 1 < name.size();
}

bool may_be_in_output(std::string_view name) {
  constexpr std::string_view kEndings[] = {".metadata", kItemMetadata, ".distcp", ".safetensors", ".safetensors.index.json",
                                           kPartial,    kLock};
  return is_asset(name) || std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

void remove_leftover(Io& io, const Leftover& left, uint32_t owner, Links links) {
  const FileFacts& facts = left.facts;
  if (facts.kind == FileKind::kDirectory && !facts.link) return remove_folder_of_files(io, left, owner, links);
  if (facts.link || facts.kind != FileKind::kRegular || facts.owner != owner) fail_foreign(io, left, FileKind::kRegular, owner);
  io.remove_file(left.folder, left.name);
}

bool is_named(Io& io, Handle folder, const std::string& name, const FileFacts& facts) {
  const std::optional<FileFacts> named = io.facts(folder, name);
  return named && !named->link && named->id == facts.id;
}

}  // namespace dcp
