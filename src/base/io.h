// The operating system as an interface, passed by reference from main: faults, power loss and short reads are tested through it.
//
// Every failure is an Error of the io_* family with the path and the system's text. Handles are small integers owned by the Io.
// All calls may be made from any thread; two threads must not close and use one handle at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace dcp {

using Handle = int;
inline constexpr Handle kNoHandle = -1;

enum class FileKind : uint8_t { kRegular, kDirectory, kOther };
enum class Replace : uint8_t { kNo, kYes };  // rename onto an existing name
enum class FollowLinks : uint8_t { kCacheOnly, kAll };

// Two names or handles with the same id are the same file or folder, as long as one of them is open.
struct FileId {
  uint64_t device = 0, inode = 0;
  bool operator==(const FileId&) const = default;
};

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

class Io {
 public:
  virtual ~Io() = default;

  // --- reading
  // A file the user named: links followed, regular files only (a FIFO or device is refused).
  virtual Handle open_read(const std::string& path) = 0;
  // A name taken from inside a checkpoint: opened beneath the folder `root` only (openat2 RESOLVE_BENEATH, or an equal walk), regular
  // files only. `name` may hold '/', never "..", never a leading '/', never NUL. A final link of the Hugging Face cache's form
  // (`../../blobs/X`) is followed; any other link needs FollowLinks::kAll. nullopt: there is no such file.
  virtual std::optional<Handle> open_beneath(const std::string& root, std::string_view name, FollowLinks links) = 0;
  // One pread: at most buffer.size() bytes, 0 at the end of the file. May be short; read_exact below loops.
  virtual size_t read(Handle file, uint64_t offset, MutableBytes buffer) = 0;
  virtual FileFacts facts(Handle file) = 0;
  virtual std::optional<FileFacts> facts(const std::string& path) = 0;  // nullopt: there is none
  virtual std::vector<DirEntry> list(const std::string& folder) = 0;    // sorted by name, without . and ..

  // --- folders
  // Files are created, renamed and removed by a name (without '/') in an open folder: in that very folder, whatever its path
  // leads to by then. No link is followed there.
  virtual Handle open_folder(const std::string& path) = 0;  // one the user named, links followed; "" is the working folder
  virtual std::optional<Handle> open_folder(Handle folder, const std::string& name) = 0;  // nullopt: there is no folder of this name
  virtual std::optional<FileFacts> facts(Handle folder, const std::string& name) = 0;     // nullopt: there is none; kOther: a link
  virtual std::vector<DirEntry> list(Handle folder) = 0;                                  // sorted by name, without . and ..
  // False: this file system may give a file another id after a rename, or on another host.
  virtual bool keeps_ids(Handle) { return true; }

  // --- writing
  // For reading and writing. A file that exists is never cut: allocate() does that, once the lock is held.
  virtual Handle create(Handle folder, const std::string& name) = 0;                     // output_exists if it exists
  virtual std::optional<Handle> open_write(Handle folder, const std::string& name) = 0;  // nullopt: there is none
  virtual size_t write(Handle file, uint64_t offset, Bytes bytes) = 0;                   // one pwrite; may be short; write_all below loops
  // The same for bytes that will be synced and not read soon: where the system can, they go to the medium at once and then leave the page
  // cache.
  virtual size_t write_past_cache(Handle file, uint64_t offset, Bytes bytes) { return write(file, offset, bytes); }
  // Gives the file its final size and its space: fallocate(2), else ftruncate (never an emulation that writes the data twice).
  // False: the file system cannot reserve, so the space is not promised.
  virtual bool allocate(Handle file, uint64_t bytes) = 0;
  virtual void sync(Handle file) = 0;
  virtual void sync_folder(Handle folder) = 0;
  virtual void drop_cache(Handle) {}                                     // a hint: synced bytes are read from the medium next time
  virtual void make_folder(Handle folder, const std::string& name) = 0;  // output_exists if it exists
  virtual void rename(Handle folder, const std::string& from, const std::string& to,
                      Replace replace) = 0;  // kNo: output_exists if `to` exists
  // Adds a name to an open file, whatever became of its other names. output_exists if the name exists; false: not possible here.
  virtual bool link(Handle file, Handle folder, const std::string& name) = 0;
  // Makes the empty file `to` a clone of `from`: the two share blocks until one of them is written to. False: not possible here.
  virtual bool clone(Handle /*from*/, Handle /*to*/) { return false; }
  virtual void remove_file(Handle folder, const std::string& name) = 0;    // absent is fine
  virtual void remove_folder(Handle folder, const std::string& name) = 0;  // empty folders only; absent is fine
  // Exclusive, for the life of the handle; false: held by another process. True where the file system has no locks.
  virtual bool try_lock(Handle file) = 0;
  virtual std::optional<uint64_t> free_bytes(const std::string& folder) = 0;  // for an ordinary user; nullopt: unknown

  virtual void close(Handle file) = 0;
  virtual std::string name_of(Handle file) = 0;  // the path for messages
  virtual uint64_t now_ns() = 0;                 // monotonic
};

std::unique_ptr<Io> make_posix_io();

// Closes on destruction. Movable.
class OpenFile {
 public:
  OpenFile() = default;
  OpenFile(Io& io, Handle handle) : io_(&io), handle_(handle) {}
  OpenFile(OpenFile&& other) noexcept : io_(other.io_), handle_(std::exchange(other.handle_, kNoHandle)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(io_, other.io_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~OpenFile() {
    if (handle_ != kNoHandle) io_->close(handle_);
  }
  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != kNoHandle; }

 private:
  Io* io_ = nullptr;
  Handle handle_ = kNoHandle;
};

// A name, and the folder that has it.
struct NameIn {
  OpenFile folder;
  std::string name;
};
// The parent of a path (without a trailing '/') at which something will be created. Throws io_create if there is no such folder.
NameIn open_parent(Io& io, const std::string& path);
void make_folder(Io& io, const std::string& path);  // output_exists if it exists; parents are not made

// Fills the whole buffer or throws: io_read, or `short_file` (kInput) where the file ends first, with offset and length.
void read_exact(Io& io, Handle file, uint64_t offset, MutableBytes buffer);
enum class Cache : uint8_t { kKeep, kPass };
void write_all(Io& io, Handle file, uint64_t offset, Bytes bytes, Cache cache = Cache::kKeep);
// A whole file of at most `cap` bytes (else over_limit).
std::vector<std::byte> read_file(Io& io, Handle file, uint64_t cap);
std::vector<std::byte> read_file(Io& io, const std::string& path, uint64_t cap);

}  // namespace dcp
