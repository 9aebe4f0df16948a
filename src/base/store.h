// The source of checkpoints, as an interface: a disk, an object store, memory. Nothing here assumes a disk: a folder is only a prefix of
// names, without a handle, an owner or a number.
//
// Every failure is an Error of the io_* family with the path and the system's text. Handles are small integers owned by the store.
// All calls may be made from any thread; two threads must not close and use one handle at once.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace dcp {

using Handle = int;
inline constexpr Handle kNoHandle = -1;

enum class FileKind : uint8_t { kRegular, kDirectory, kOther };
enum class FollowLinks : uint8_t { kCacheOnly, kAll };

// Two names or handles with the same id are the same file or folder, as long as one of them is open.
struct FileId {
  uint64_t device = 0, inode = 0;
  bool operator==(const FileId&) const = default;
};

// A store that is not a disk fills in only the first two or three.
struct FileFacts {
  uint64_t bytes = 0;
  FileKind kind = FileKind::kOther;
  int64_t modified_ns = 0;  // since the epoch
  FileId id{};
  uint32_t owner = 0;  // the user
  uint64_t names = 1;  // hard links
  bool link = false;   // the name itself is a symbolic link; the other fields describe its target
};

struct DirEntry {
  std::string name;
  FileKind kind = FileKind::kOther;  // of a link's target
  bool link = false;
};

// How a store should be read.
struct ReadCapabilities {
  unsigned requests = 0;             // that should be in flight at once, because each takes long; 0: no preference
  uint64_t request_bytes = 0;        // that one should ask for, for the same reason; 0: no preference
  bool network = false;              // it makes TCP connections
  std::vector<uint16_t> ports{};     // to which alone; none: to any
  std::vector<std::string> files{};  // on disk, and folders, that the store itself reads: certificates, the names of hosts
};

class Store {
 public:
  virtual ~Store() = default;

  // A file the user named: links followed, regular files only (a FIFO or device is refused).
  virtual Handle open_read(const std::string& path) = 0;
  // A name taken from inside a checkpoint: opened beneath the folder `root` only (openat2 RESOLVE_BENEATH, or an equal walk), regular
  // files only. `name` may hold '/', never "..", never a leading '/', never NUL. A final link of the Hugging Face cache's form
  // (`../../blobs/X`) is followed; any other link needs FollowLinks::kAll. nullopt: there is no such file.
  virtual std::optional<Handle> open_beneath(const std::string& root, std::string_view name, FollowLinks links) = 0;
  // At most buffer.size() bytes, 0 at the end of the file. May be short; read_exact below loops.
  virtual size_t read(Handle file, uint64_t offset, MutableBytes buffer) = 0;
  virtual FileFacts facts(Handle file) = 0;
  virtual std::optional<FileFacts> facts(const std::string& path) = 0;  // nullopt: there is none
  virtual std::vector<DirEntry> list(const std::string& folder) = 0;    // sorted by name, without . and ..
  virtual void close(Handle file) = 0;
  virtual std::string name_of(Handle file) = 0;  // the path for messages
  virtual ReadCapabilities read_capabilities(const std::string& /*path*/) { return {}; }
};

// Closes on destruction. Movable.
class OpenFile {
 public:
  OpenFile() = default;
  OpenFile(Store& store, Handle handle) : store_(&store), handle_(handle) {}
  OpenFile(OpenFile&& other) noexcept : store_(other.store_), handle_(std::exchange(other.handle_, kNoHandle)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~OpenFile() {
    if (handle_ != kNoHandle) store_->close(handle_);
  }
  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != kNoHandle; }

 private:
  Store* store_ = nullptr;
  Handle handle_ = kNoHandle;
};

// Fills the whole buffer or throws: io_read, or `short_file` (kInput) where the file ends first, with offset and length.
void read_exact(Store& store, Handle file, uint64_t offset, MutableBytes buffer);
// A whole file of at most `cap` bytes (else over_limit).
std::vector<std::byte> read_file(Store& store, Handle file, uint64_t cap);
std::vector<std::byte> read_file(Store& store, const std::string& path, uint64_t cap);

// A bounded set of open files: checkpoints can have more files than a process may have descriptors.

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

// --- a base for a store that forwards to another one and overrides a few calls

// Forwards the calls of Store, for a Store or a class derived from it.
template <class Base>
class ForwardsReads : public Base {
 public:
  explicit ForwardsReads(Base& inner) : inner_(inner) {}
  using Base::facts, Base::list;
  Handle open_read(const std::string& path) override { return inner_.open_read(path); }
  std::optional<Handle> open_beneath(const std::string& root, std::string_view name, FollowLinks links) override {
    return inner_.open_beneath(root, name, links);
  }
  size_t read(Handle file, uint64_t offset, MutableBytes buffer) override { return inner_.read(file, offset, buffer); }
  FileFacts facts(Handle file) override { return inner_.facts(file); }
  std::optional<FileFacts> facts(const std::string& path) override { return inner_.facts(path); }
  std::vector<DirEntry> list(const std::string& folder) override { return inner_.list(folder); }
  void close(Handle file) override { inner_.close(file); }
  std::string name_of(Handle file) override { return inner_.name_of(file); }
  ReadCapabilities read_capabilities(const std::string& path) override { return inner_.read_capabilities(path); }

 protected:
  Base& inner_;
};

using StoreWrapper = ForwardsReads<Store>;

}  // namespace dcp
