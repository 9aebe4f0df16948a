// The operating system as an interface that main passes by reference, so that tests can inject faults, power loss and short reads. It adds
// open folders to Store, and everything that creates, writes, renames, removes and locks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/store.h"

namespace dcp {

enum class Replace : uint8_t { kNo, kYes };  // rename onto an existing name

// What the file system of an output's folder can do.
struct WriteCapabilities {
  bool replaces_atomically = true;  // a rename onto an existing name leaves no moment without the file
  bool writes_anywhere = true;      // at any offset, in any order
  bool reserves = true;             // allocate() reserves the space
  bool keeps_ids = true;            // a file has the same id after a rename, and on another host
};

class Io : public Store {
 public:
  using Store::facts, Store::list;

  // --- folders
  // Files are created, renamed and removed by name (without '/') in an open folder, so it does not matter where the folder's path leads by
  // then. Links are not followed.
  virtual Handle open_folder(const std::string& path) = 0;  // one the user named, links followed; "" is the working folder
  virtual std::optional<Handle> open_folder(Handle folder, const std::string& name) = 0;  // nullopt: there is no folder of this name
  virtual std::optional<FileFacts> facts(Handle folder, const std::string& name) = 0;     // nullopt: there is none; kOther: a link
  virtual std::vector<DirEntry> list(Handle folder) = 0;                                  // sorted by name, without . and ..
  virtual WriteCapabilities write_capabilities(Handle /*folder*/) { return {}; }
  // Throws io_create if this user may not create files in the folder.
  virtual void check_writable(const std::string& folder) = 0;

  // --- writing
  // Both open for reading and writing. Neither truncates an existing file: allocate() does, once the lock is held.
  virtual Handle create(Handle folder, const std::string& name) = 0;                     // output_exists if it exists
  virtual std::optional<Handle> open_write(Handle folder, const std::string& name) = 0;  // nullopt: there is none
  virtual size_t write(Handle file, uint64_t offset, Bytes bytes) = 0;                   // one pwrite; may be short; write_all below loops
  // The same for bytes that will be synced and not read soon: where the system can, they go to the medium at once and then leave the page
  // cache.
  virtual size_t write_past_cache(Handle file, uint64_t offset, Bytes bytes) { return write(file, offset, bytes); }
  // Gives the file its final size and reserves the space: fallocate(2), else ftruncate (never an emulation that writes the data twice).
  // Afterwards write_capabilities of the folder says whether the space is reserved.
  virtual void allocate(Handle file, uint64_t bytes) = 0;
  virtual void sync(Handle file) = 0;
  // Waits until these bytes are on the medium, where the system can say so of a part. sync() has to follow.
  virtual void sync_part(Handle /*file*/, uint64_t /*offset*/, uint64_t /*bytes*/) {}
  virtual void sync_folder(Handle folder) = 0;
  virtual void drop_cache(Handle) {}                                     // a hint: synced bytes are read from the medium next time
  virtual void make_folder(Handle folder, const std::string& name) = 0;  // output_exists if it exists
  // Restricts a folder to its owner and returns its previous permissions, for set_permissions. nullopt: not possible here.
  virtual std::optional<uint32_t> make_private(Handle /*folder*/) { return std::nullopt; }
  virtual void set_permissions(Handle /*folder*/, uint32_t /*permissions*/) {}  // io_create
  virtual void rename(Handle folder, const std::string& from, const std::string& to,
                      Replace replace) = 0;  // kNo: output_exists if `to` exists
  // Adds a name to an open file, even if its other names are gone. Throws output_exists if the name exists. False: not possible here.
  virtual bool link(Handle file, Handle folder, const std::string& name) = 0;
  // Makes the empty file `to` a clone of `from`: the two share blocks until one of them is written to. False: not possible here.
  virtual bool clone(Handle /*from*/, Handle /*to*/) { return false; }
  virtual void remove_file(Handle folder, const std::string& name) = 0;    // absent is fine
  virtual void remove_folder(Handle folder, const std::string& name) = 0;  // empty folders only; absent is fine
  // Takes an exclusive lock for the life of the handle. False: another process holds it. True where the file system has no locks.
  virtual bool try_lock(Handle file) = 0;
  virtual std::optional<uint64_t> free_bytes(const std::string& folder) = 0;  // for an ordinary user; nullopt: unknown
  virtual uint64_t now_ns() = 0;                                              // monotonic
  // When a file in the folder, or the folder itself (as "."), was modified, since the epoch. Does nothing where it cannot be said.
  virtual void set_modified(Handle /*folder*/, const std::string& /*name*/, int64_t /*ns*/) {}
};

std::unique_ptr<Io> make_posix_io();

// A name, and the folder that it is in.
struct NameIn {
  OpenFile folder;
  std::string name;
};
// The parent of a path (without a trailing '/') at which something will be created. Throws io_create if there is no such folder.
NameIn open_parent(Io& io, const std::string& path);
void make_folder(Io& io, const std::string& path);  // output_exists if it exists; parents are not made

enum class Cache : uint8_t { kKeep, kPass };
void write_all(Io& io, Handle file, uint64_t offset, Bytes bytes, Cache cache = Cache::kKeep);
// Io::sync, which may take seconds: with `between`, part by part, and that is called before each. It may throw.
void sync_all(Io& io, Handle file, const std::function<void()>& between = {});

}  // namespace dcp
