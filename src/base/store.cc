#include "base/store.h"

namespace dcp {

void read_exact(Store& store, Handle file, uint64_t offset, MutableBytes buffer) {
  size_t done = 0;
  while (done < buffer.size()) {
    const size_t n = store.read(file, offset + done, buffer.subspan(done));
    if (n == 0) {
      fail(ProblemId::short_file, Place{.path = store.name_of(file), .offset = offset, .length = buffer.size()},
           std::to_string(done) + " bytes", std::to_string(buffer.size()) + " bytes");
    }
    done += n;
  }
}

std::vector<std::byte> read_file(Store& store, Handle file, uint64_t cap) {
  const uint64_t size = store.facts(file).bytes;
  if (size > cap) {
    fail(ProblemId::over_limit, Place{.path = store.name_of(file)}, std::to_string(size) + " bytes",
         "at most " + std::to_string(cap) + " bytes");
  }
  std::vector<std::byte> bytes(size);
  read_exact(store, file, 0, bytes);
  return bytes;
}

std::vector<std::byte> read_file(Store& store, const std::string& path, uint64_t cap) {
  if (!store.facts(path)) fail(ProblemId::no_such_path, {.path = path});
  const OpenFile file(store, store.open_read(path));
  return read_file(store, file.get(), cap);
}

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
