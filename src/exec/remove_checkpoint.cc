#include "exec/remove_checkpoint.h"

#include <algorithm>
#include <optional>

#include "base/problem.h"
#include "base/working_names.h"
#include "catalog/kind.h"
#include "exec/claim.h"

namespace dcp {
namespace {

// What makes a folder a checkpoint goes first: without it the data is none. Where each file is one by itself, the index stays to the end,
// which misses the first file that goes.
int phase_of(std::string_view name, bool is_models) {
  const FileRole role = role_of(name);
  if (role == (is_models ? FileRole::kModel : FileRole::kVital)) return 0;
  return role == (is_models ? FileRole::kIndex : FileRole::kData) ? 2 : 1;
}

// Held by nobody: in the folder itself lies the lock of who fills it.
bool is_free(Io& io, Handle folder) {
  const std::optional<Handle> lock = io.open_write(folder, std::string(kLock));
  if (!lock) return true;
  const OpenFile file(io, *lock);
  return io.try_lock(file.get());
}

// Names of its files; nothing where it is not what it was.
std::optional<std::vector<std::string>> names_in(Io& io, Handle handle, const CheckpointFolder& folder) {
  std::vector<std::string> names;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  for (const DirEntry& e : io.list(handle)) {
    const std::optional<FileFacts> facts = io.facts(handle, e.name);
    if (!facts) return std::nullopt;
    if (facts->link || facts->kind != FileKind::kRegular || !is_checkpoint_file(e.name))
      fail(ProblemId::leftover_foreign, {.path = io.name_of(handle) + "/" + e.name}, "no file of a checkpoint");
    modified_ns = names.empty() ? facts->modified_ns : std::max(modified_ns, facts->modified_ns);
    bytes += facts->bytes;
    names.push_back(e.name);
  }
  if (names.size() != folder.files || bytes != folder.bytes || (!names.empty() && modified_ns != folder.modified_ns)) return std::nullopt;
  return names;
}

}  // namespace

bool is_checkpoint_file(std::string_view name) {
  constexpr std::string_view kEndings[] = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".json", kOld};
  return may_be_in_output(name) || role_of(name) != FileRole::kOther || name.starts_with(".metadata.orig") ||
         std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

RemovalOrder removal_order(std::vector<std::string> names) {
  const auto count = [&](FileRole role) { return std::ranges::count(names, role, role_of); };
  const bool is_models = count(FileRole::kVital) + count(FileRole::kData) == 0;
  if (is_models && count(FileRole::kModel) > 1 && count(FileRole::kIndex) == 0) return {};
  const auto phase = [&](const std::string& n) { return phase_of(n, is_models); };
  std::ranges::sort(names, {}, [&](const std::string& n) { return std::pair(phase(n), std::string_view(n)); });
  const auto first = std::ranges::count_if(names, [&](const std::string& n) { return phase(n) == 0; });
  return {.names = std::move(names), .metadata = static_cast<size_t>(first)};
}

bool remove_checkpoint(Io& io, Handle run, const CheckpointFolder& folder) {
  std::optional<ClaimedName> claim;
  try {
    claim.emplace(io, run, beside(folder.name, kLock));
    if (!claim->is_ours()) return false;
  } catch (const Error& e) {  // a file system that is full, as runs are pruned for, may have no room for a lock
    if (e.problem().id != ProblemId::io_no_space) throw;
  }
  const std::optional<Handle> handle = io.open_folder(run, folder.name);
  if (!handle) return false;
  const OpenFile inside(io, *handle);
  if (io.facts(inside.get()).id != folder.id || !is_free(io, inside.get())) return false;
  const auto names = names_in(io, inside.get(), folder);
  if (!names) return false;
  const RemovalOrder order = removal_order(*names);
  if (order.names.size() != names->size()) return false;
  OpenFile first;  // to go: locked where there is no other lock
  if (!claim && !order.names.empty()) {
    const std::optional<Handle> file = io.open_write(inside.get(), order.names.front());
    if (!file) return false;
    first = OpenFile(io, *file);
    if (!io.try_lock(first.get())) return false;
  }
  for (size_t i = 0; i < order.names.size(); ++i) {
    if (i == order.metadata) io.sync_folder(inside.get());
    io.remove_file(inside.get(), order.names[i]);
  }
  if (is_named(io, run, folder.name, io.facts(inside.get()))) io.remove_folder(run, folder.name);
  return true;
}

}  // namespace dcp
