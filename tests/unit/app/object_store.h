// A store that is no disk: names with bytes, read only. There are no folders but in names, no links, owners or ids, and every request
// answers with a part.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/store.h"

namespace dcp::test {

class ObjectStore final : public Store {
 public:
  unsigned requests = 3;           // that it wants under way at once
  uint64_t request_bytes = 1;      // that it wants each to be: heads are predicted
  size_t most_bytes = 100 * 1000;  // of one answer
  unsigned milliseconds = 0;       // that each takes
  std::atomic<unsigned> reading = 0, most_reading = 0;

  void put(const std::string& name, std::string bytes, int64_t modified_ns = 0) {
    objects_[name] = {.bytes = std::move(bytes), .modified_ns = modified_ns};
  }
  size_t open_handles() const {
    return static_cast<size_t>(std::ranges::count_if(open_, [](const std::string& name) { return !name.empty(); }));
  }

  Handle open_read(const std::string& path) override {
    if (!objects_.contains(path)) fail(ProblemId::io_open, {.path = path}, "no such object");
    const std::lock_guard lock(mutex_);
    open_.push_back(path);
    return static_cast<Handle>(open_.size() - 1);
  }
  std::optional<Handle> open_beneath(const std::string& root, std::string_view name, FollowLinks) override {
    const std::string path = in(root) + std::string(name);
    return objects_.contains(path) ? std::optional(open_read(path)) : std::nullopt;
  }
  size_t read(Handle file, uint64_t offset, MutableBytes buffer) override {
    const unsigned now = ++reading;
    for (unsigned most = most_reading; most < now && !most_reading.compare_exchange_weak(most, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    --reading;
    const std::string& bytes = objects_.at(name_of(file)).bytes;
    if (offset >= bytes.size()) return 0;
    const size_t n = std::min({buffer.size(), most_bytes, bytes.size() - static_cast<size_t>(offset)});
    std::copy_n(as_bytes(bytes).begin() + static_cast<ptrdiff_t>(offset), n, buffer.begin());
    return n;
  }
  FileFacts facts(Handle file) override { return *facts(name_of(file)); }
  std::optional<FileFacts> facts(const std::string& path) override {
    if (const auto object = objects_.find(path); object != objects_.end())
      return FileFacts{.bytes = object->second.bytes.size(), .kind = FileKind::kRegular, .modified_ns = object->second.modified_ns};
    if (list(path).empty()) return std::nullopt;
    return FileFacts{.kind = FileKind::kDirectory};
  }
  std::vector<DirEntry> list(const std::string& folder) override {
    std::vector<DirEntry> entries;
    const std::string prefix = in(folder);
    for (auto o = objects_.lower_bound(prefix); o != objects_.end() && o->first.starts_with(prefix); ++o) {
      const std::string rest = o->first.substr(prefix.size());
      const DirEntry entry{.name = rest.substr(0, rest.find('/')),
                           .kind = rest.find('/') == std::string::npos ? FileKind::kRegular : FileKind::kDirectory};
      if (entries.empty() || entries.back().name != entry.name) entries.push_back(entry);
    }
    return entries;
  }
  void close(Handle file) override {
    const std::lock_guard lock(mutex_);
    open_.at(static_cast<size_t>(file)).clear();
  }
  std::string name_of(Handle file) override {
    const std::lock_guard lock(mutex_);
    return open_.at(static_cast<size_t>(file));
  }
  ReadCapabilities read_capabilities(const std::string&) override { return {.requests = requests, .request_bytes = request_bytes}; }

 private:
  struct Object {
    std::string bytes;
    int64_t modified_ns = 0;
  };
  static std::string in(const std::string& folder) { return folder.ends_with('/') ? folder : folder + "/"; }

  std::map<std::string, Object> objects_;
  std::mutex mutex_;
  std::vector<std::string> open_;  // names, by handle; "": closed
};

}  // namespace dcp::test
