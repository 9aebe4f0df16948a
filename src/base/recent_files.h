// A bounded set of open files: checkpoints can have more files than a process may have descriptors.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/io.h"

namespace dcp {

// Keyed by a number that the caller chooses. Thread-safe. A file stays open while somebody holds the pointer, even after its eviction.
class RecentFiles {
 public:
  explicit RecentFiles(size_t max) : max_(max) {}
  // The open file; if there is none, calls `opening` under the lock.
  std::shared_ptr<const OpenFile> open(uint32_t file, const std::function<OpenFile()>& opening);
  void close_all();

 private:
  size_t max_;
  std::mutex mutex_;
  std::list<std::pair<uint32_t, std::shared_ptr<const OpenFile>>> recent_;  // most recently used first
  std::unordered_map<uint32_t, decltype(recent_)::iterator> by_file_;
};

}  // namespace dcp
