// A sink in memory that counts how often each byte is written.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "files/sink.h"
#include "plan/plan.h"

namespace dcp::test {

class MemorySink : public Sink {
 public:
  explicit MemorySink(const Plan& plan) {
    for (const OutputFile& f : plan.files) {
      files.emplace_back(f.bytes, '?');
      times.emplace_back(f.bytes, 0);
    }
  }
  void write(uint32_t file, uint64_t offset, Bytes bytes) override {
    const std::lock_guard lock(mutex_);
    ++writes;
    std::string& to = files.at(file);
    if (offset > to.size() || bytes.size() > to.size() - offset) {
      ++writes_outside;
      return;
    }
    std::ranges::copy(as_text(bytes), to.begin() + static_cast<int64_t>(offset));
    for (uint64_t i = 0; i < bytes.size(); ++i) ++times[file][offset + i];
  }
  void finish() override {}
  void commit() override {}
  void abort() noexcept override {}

  // Whether every byte of every file was written, and none twice.
  bool each_byte_once() const {
    const auto once = [](const std::vector<unsigned>& t) { return std::ranges::all_of(t, [](unsigned n) { return n == 1; }); };
    return writes_outside == 0 && std::ranges::all_of(times, once);
  }

  std::vector<std::string> files;
  std::vector<std::vector<unsigned>> times;
  uint64_t writes = 0;
  uint64_t writes_outside = 0;

 private:
  std::mutex mutex_;
};

}  // namespace dcp::test
