// An Io that passes reads on and counts how often each byte of each file is read.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/io_wrapper.h"

namespace dcp::test {

class CountingIo final : public IoWrapper {
 public:
  using IoWrapper::IoWrapper;

  // Reads of bytes [offset, offset + bytes) of a file since reset(): the least and the most over them.
  std::pair<unsigned, unsigned> times(const std::string& path, uint64_t offset, uint64_t bytes) {
    std::vector<unsigned>& t = times_[path];
    if (t.size() < offset + bytes) t.resize(offset + bytes);
    const auto [least, most] = std::ranges::minmax(std::span(t).subspan(offset, bytes));
    return {least, most};
  }
  void reset() { times_.clear(); }

  size_t read(Handle file, uint64_t offset, MutableBytes buffer) override {
    const size_t n = inner_.read(file, offset, buffer);
    const std::string path = inner_.name_of(file);
    const std::lock_guard lock(mutex_);
    std::vector<unsigned>& t = times_[path];
    if (t.size() < offset + n) t.resize(offset + n);
    for (size_t i = 0; i < n; ++i) ++t[offset + i];
    return n;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<unsigned>> times_;
};

}  // namespace dcp::test
