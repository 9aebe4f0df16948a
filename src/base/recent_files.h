// Files that are open, at most so many at once: checkpoints have more files than a process may have descriptors.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/io.h"

namespace dcp {

// By a number of the caller's. Thread-safe. A file stays open while somebody holds the pointer, also past its eviction.
class RecentFiles {
 public:
  explicit RecentFiles(size_t max) : max_(max) {}
  // The open file, or what `opening` opens; it is called under the lock.
  std::shared_ptr<const OpenFile> open(uint32_t file, const std::function<OpenFile()>& opening);
  void close_all();

 private:
  size_t max_;
  std::mutex mutex_;
  std::list<std::pair<uint32_t, std::shared_ptr<const OpenFile>>> recent_;  // most recently used first
  std::unordered_map<uint32_t, decltype(recent_)::iterator> by_file_;
};

}  // namespace dcp
