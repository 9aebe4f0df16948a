#include "inputs/step_folders.h"

#include <algorithm>

#include "base/natural_order.h"
#include "base/problem.h"
#include "base/step_names.h"
#include "base/working_names.h"
#include "catalog/kind.h"
#include "inputs/open.h"

namespace dcp {
namespace {

constexpr unsigned kPartLevels = 4;       // global_step_N/model/NAME/ckpt, and one more
constexpr unsigned kMaxFolders = 10'000;  // that a search looks into

// Whether the folder is a part of a step, whatever numbers its name has.
bool says_part(std::string_view name) { return name.find("model") != name.npos || name.find("optim") != name.npos; }

// A number in any other name may count steps: nothing shows that it counts parts.
bool says_step(std::string_view name, bool in_part) { return names_step(name) || (last_integer(name) && !in_part && !says_part(name)); }

class Search {
 public:
  Search(Store& store, const IsOne& is_one, Closed closed) : store_(store), is_one_(is_one), closed_(closed) {}

  std::vector<std::string> run(const std::string& folder, unsigned levels) {
    below(folder, store_.list(folder), levels);
    return std::move(found_);
  }

 private:
  void below(const std::string& folder, const std::vector<DirEntry>& entries, unsigned levels) {
    for (const DirEntry& e : entries) {
      if (e.kind != FileKind::kDirectory || e.link || is_working_name(e.name)) continue;
      if (++seen_ > kMaxFolders) return;
      const std::string path = folder + "/" + e.name;
      const std::vector<DirEntry> inside = entries_of(path);
      if (is_one_(path, inside)) found_.push_back(path);
      else if (levels > 1) below(path, inside, levels - 1);
    }
  }

  std::vector<DirEntry> entries_of(const std::string& path) {
    try {
      return store_.list(path);
    } catch (const Error& e) {
      if (closed_ == Closed::kThrow || e.problem().id != ProblemId::io_list) throw;
      return {};
    }
  }

  Store& store_;
  const IsOne& is_one_;
  const Closed closed_;
  unsigned seen_ = 0;
  std::vector<std::string> found_;
};

std::vector<std::string_view> names_from(std::string_view path, size_t at) {
  std::vector<std::string_view> names;
  for (size_t end = 0; at < path.size(); at = end + 1) {
    end = std::min(path.find('/', at), path.size());
    names.push_back(path.substr(at, end - at));
  }
  return names;
}

// Whether a folder on the way from a step to its part is a step itself.
bool leads_through_step(const std::string& part, size_t at) {
  bool in_part = false;
  for (const std::string_view name : names_from(part, at)) {
    if (says_step(name, in_part)) return true;
    in_part = in_part || says_part(name);
  }
  return false;
}

bool describes(const DirEntry& e) { return e.kind == FileKind::kRegular && describes_checkpoint(e.name); }

}  // namespace

bool is_checkpoint_folder(Store& store, const std::string& path) { return std::ranges::any_of(store.list(path), describes); }

bool looks_like_checkpoint(const std::vector<DirEntry>& entries) {
  return std::ranges::any_of(entries, [](const DirEntry& e) {
    const FileRole role = role_of(e.name);
    return describes(e) || (e.kind == FileKind::kRegular && (role == FileRole::kUnfinished || role == FileRole::kData));
  });
}

std::vector<std::string> folders_below(Store& store, const std::string& folder, unsigned levels, const IsOne& is_one, Closed closed) {
  return Search(store, is_one, closed).run(folder, levels);
}

std::vector<std::string> parts_of(Store& store, const std::string& step) {
  if (looks_like_checkpoint(store.list(step))) return {};
  const auto is_part = [](const std::string&, const std::vector<DirEntry>& entries) { return looks_like_checkpoint(entries); };
  std::vector<std::string> parts = folders_below(store, step, kPartLevels, is_part, Closed::kThrow);
  if (std::ranges::any_of(parts, [&](const std::string& part) { return leads_through_step(part, step.size() + 1); })) return {};
  std::ranges::stable_sort(parts, {}, [&](const std::string& path) { return path.find("optim", step.size()) != path.npos; });
  return parts;
}

std::vector<std::string> checkpoints_below(Store& store, const std::string& folder) {
  constexpr unsigned kLevels = 5;
  const auto is_one = [](const std::string&, const std::vector<DirEntry>& entries) { return std::ranges::any_of(entries, describes); };
  std::vector<std::string> found = folders_below(store, folder, kLevels, is_one, Closed::kSkip);
  std::ranges::sort(found, NaturalLess());
  return found;
}

std::optional<std::string> only_checkpoint_below(Store& store, const std::string& given) {
  const std::string folder = without_trailing_slashes(given);
  const std::optional<FileFacts> facts = store.facts(folder);
  if (!facts || facts->kind != FileKind::kDirectory || looks_like_checkpoint(store.list(folder))) return std::nullopt;
  std::vector<std::string> found = checkpoints_below(store, folder);
  if (found.size() != 1 || leads_through_step(found[0], folder.size() + 1)) return std::nullopt;
  if (std::ranges::any_of(names_from(found[0], folder.size() + 1), is_unfinished_name)) return std::nullopt;
  return std::move(found[0]);
}

}  // namespace dcp
