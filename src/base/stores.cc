#include "base/stores.h"

#include <iterator>
#include <limits>
#include <utility>

#include "base/file_names.h"
#include "base/problem.h"

namespace dcp {
namespace {

// The form in which stores get a path: no double slashes after the scheme's.
std::string tidy(const std::string& path) {
  const size_t root = root_bytes(path);
  if (root < 2) return path;
  std::string text = path.substr(0, root);
  for (size_t i = root; i < path.size(); ++i)
    if (path[i] != '/' || !text.ends_with('/')) text += path[i];
  return without_trailing_slashes(std::move(text));
}

}  // namespace

Stores::Stores(Store& disk, NamedStores named) : named_(std::move(named)), stores_{&disk} {
  for (const auto& [name, store] : named_) stores_.push_back(store.get());
}

size_t Stores::number_of(const std::string& path) const {
  const std::string_view scheme = scheme_of(path);
  if (scheme.empty()) return 0;
  if (const auto found = named_.find(scheme); found != named_.end()) return 1 + static_cast<size_t>(std::distance(named_.begin(), found));
  std::string there;
  for (const auto& [name, store] : named_) there += name + ":// or ";
  fail(ProblemId::store_unknown, {.path = path}, std::string(scheme) + "://", there + "a path on disk");
}

Handle Stores::numbered(size_t number, Handle handle) const {
  if (number == 0) return handle;
  const auto count = static_cast<Handle>(stores_.size() - 1);
  if (handle >= std::numeric_limits<Handle>::max() / count - 2) fail(ProblemId::internal, {}, "too many open files");
  return -2 - (handle * count + static_cast<Handle>(number - 1));
}

Stores::At Stores::at(Handle handle) const {
  if (handle >= kNoHandle) return {*stores_[0], handle};
  const auto count = static_cast<Handle>(stores_.size() - 1);
  const Handle all = -2 - handle;
  return {*stores_[static_cast<size_t>(1 + all % count)], all / count};
}

Handle Stores::open_read(const std::string& path) {
  const size_t number = number_of(path);
  return numbered(number, stores_[number]->open_read(tidy(path)));
}

std::optional<Handle> Stores::open_beneath(const std::string& root, std::string_view name, FollowLinks links) {
  const size_t number = number_of(root);
  const std::optional<Handle> handle = stores_[number]->open_beneath(tidy(root), name, links);
  return handle ? std::optional(numbered(number, *handle)) : std::nullopt;
}

size_t Stores::read(Handle file, uint64_t offset, MutableBytes buffer) {
  const At a = at(file);
  return a.store.read(a.handle, offset, buffer);
}

FileFacts Stores::facts(Handle file) {
  const At a = at(file);
  return a.store.facts(a.handle);
}

std::optional<FileFacts> Stores::facts(const std::string& path) { return of(path).facts(tidy(path)); }

std::vector<DirEntry> Stores::list(const std::string& folder) { return of(folder).list(tidy(folder)); }

void Stores::close(Handle file) {
  const At a = at(file);
  a.store.close(a.handle);
}

std::string Stores::name_of(Handle file) {
  const At a = at(file);
  return a.store.name_of(a.handle);
}

ReadCapabilities Stores::read_capabilities(const std::string& path) { return of(path).read_capabilities(tidy(path)); }

void check_on_disk(Store& store, const std::string& path) {
  if (scheme_of(path).empty()) return;
  store.read_capabilities(path);  // throws store_unknown, which takes precedence
  fail(ProblemId::store_read_only, {.path = path});
}

}  // namespace dcp
