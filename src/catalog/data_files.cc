#include "catalog/data_files.h"

namespace dcp {

std::optional<Handle> open_data_file(Io& io, const Catalog& catalog, uint32_t file, FollowLinks links) {
  if (catalog.single_file) return io.open_read(catalog.path);
  return io.open_beneath(catalog.folder, catalog.file_name(file), links);
}

std::shared_ptr<const OpenFile> DataFiles::open(uint32_t file) {
  const std::lock_guard lock(mutex_);
  if (auto it = by_file_.find(file); it != by_file_.end()) {
    recent_.splice(recent_.begin(), recent_, it->second);
    return it->second->second;
  }
  const std::optional<Handle> handle = open_data_file(io_, catalog_, file, links_);
  if (!handle) fail(ProblemId::file_missing, {.path = catalog_.file_path(file)});
  recent_.emplace_front(file, std::make_shared<const OpenFile>(io_, *handle));
  by_file_[file] = recent_.begin();
  if (recent_.size() > kMost) {
    by_file_.erase(recent_.back().first);
    recent_.pop_back();
  }
  return recent_.front().second;
}

}  // namespace dcp
