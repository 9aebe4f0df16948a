#include "base/recent_files.h"

namespace dcp {

std::shared_ptr<const OpenFile> RecentFiles::open(uint32_t file, const std::function<OpenFile()>& opening) {
  const std::lock_guard lock(mutex_);
  if (auto it = by_file_.find(file); it != by_file_.end()) {
    recent_.splice(recent_.begin(), recent_, it->second);
    return it->second->second;
  }
  if (recent_.size() >= max_ && !recent_.empty()) {
    by_file_.erase(recent_.back().first);
    recent_.pop_back();
  }
  recent_.emplace_front(file, std::make_shared<const OpenFile>(opening()));
  by_file_[file] = recent_.begin();
  return recent_.front().second;
}

void RecentFiles::close_all() {
  const std::lock_guard lock(mutex_);
  by_file_.clear();
  recent_.clear();
}

}  // namespace dcp
