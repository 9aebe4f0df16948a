#include "base/io.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "base/file_names.h"
#include "base/limits.h"
#include "base/posix_calls.h"
#include "base/text.h"

namespace dcp {

NameIn open_parent(Io& io, const std::string& path) {
  const size_t name = path.rfind('/') + 1;  // npos + 1 is 0
  try {
    return {OpenFile(io, io.open_folder(without_trailing_slashes(path.substr(0, name)))), path.substr(name)};
  } catch (const Error& e) {
    if (e.problem().id != ProblemId::io_open) throw;
    fail(ProblemId::io_create, {.path = path}, e.problem().got);
  }
}

void make_folder(Io& io, const std::string& path) {
  const NameIn made = open_parent(io, path);
  io.make_folder(made.folder.get(), made.name);
}

void write_all(Io& io, Handle file, uint64_t offset, Bytes bytes, Cache cache) {
  size_t done = 0;
  while (done < bytes.size()) {
    const Bytes rest = bytes.subspan(done);
    const size_t n = cache == Cache::kPass ? io.write_past_cache(file, offset + done, rest) : io.write(file, offset + done, rest);
    if (n == 0) {  // neither progress nor an error: a retry could loop forever
      fail(ProblemId::io_write, Place{.path = io.name_of(file), .offset = offset + done}, "0 bytes written",
           std::to_string(bytes.size() - done) + " bytes");
    }
    done += n;
  }
}

void sync_all(Io& io, Handle file, const std::function<void()>& between) {
  constexpr uint64_t kPart = 8 * kMiB;
  for (uint64_t at = 0, size = between ? io.facts(file).bytes : 0; at < size; at += kPart) {
    between();
    io.sync_part(file, at, std::min(kPart, size - at));
  }
  io.sync(file);
}

// Io on Linux: a Handle is the file descriptor itself, and the names for messages are kept beside it.

namespace {

using posix::entries_of;
using posix::facts_of;
using posix::Fd;
using posix::io_fail;
using posix::kind_text;
using posix::retry;

std::string joined(const std::string& root, std::string_view name) {
  if (root.empty()) return std::string(name);
  return root + (root.ends_with('/') ? "" : "/") + std::string(name);
}

// `name` without empty and "." components, which mean nothing. A name that could lead out of `root` is refused rather than cleaned.
std::string clean_name(const std::string& root, std::string_view name) {
  constexpr uint64_t kCap = Limits{}.name_bytes;
  if (name.size() > kCap) {
    fail(ProblemId::path_escapes, Place{.path = root}, "a name of " + std::to_string(name.size()) + " bytes",
         "at most " + std::to_string(kCap) + " bytes");
  }
  const auto refuse = [&] { fail(ProblemId::path_escapes, Place{.path = root}, std::string("'").append(name) + "'"); };
  if (name.starts_with('/') || name.find('\0') != std::string_view::npos) refuse();
  std::string clean;
  for (const std::string_view part : split(name, '/')) {
    if (part == "..") refuse();
    if (!part.empty() && part != ".") clean.append(clean.empty() ? "" : "/").append(part);
  }
  if (clean.empty()) refuse();
  return clean;
}

// The kernel decides the ordinary case in one call; links and kernels without openat2 take the walk.
int open_without_links(int root, const std::string& name) {
  const int fd = posix::open_beneath_by_kernel(root, name);
  const bool decided = fd >= 0 || (errno != ELOOP && errno != ENOSYS && errno != EPERM);
  return decided ? fd : posix::open_beneath_by_walk(root, name);
}

// The space that an ordinary user may still write. A file system that reports no size at all (ramfs, some network ones) does not know.
std::optional<uint64_t> free_bytes_of(const struct statvfs& fs) {
  if (fs.f_blocks == 0) return std::nullopt;
  return uint64_t{fs.f_bavail} * fs.f_frsize;
}

// The best check beforehand on file systems that cannot reserve space. `allocated_bytes` already belong to the file.
void check_free_space(int fd, const std::string& path, uint64_t bytes, uint64_t allocated_bytes) {
  struct statvfs fs{};
  if (::fstatvfs(fd, &fs) != 0 || bytes <= allocated_bytes) return;
  const uint64_t needed = bytes - allocated_bytes;
  const std::optional<uint64_t> available = free_bytes_of(fs);
  if (available && *available < needed) {
    fail(ProblemId::io_no_space, Place{.path = path}, "needs " + human_bytes(needed) + ", " + human_bytes(*available) + " free");
  }
}

constexpr int kWriteFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

// Smaller writes use the cache: a page that several of them share would be written to the medium once for each.
constexpr size_t kMinPastCache = 256 * kKiB;

[[noreturn]] void fail_open(const std::string& path, int error) {
  if (error == ENXIO) fail(ProblemId::not_regular, Place{.path = path}, "a socket");  // the one kind that cannot even be opened
  io_fail(ProblemId::io_open, path, error);
}

std::optional<Handle> absent_or_fail(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG) return std::nullopt;  // no file can have such a name
  if (error == ELOOP) fail(ProblemId::link_refused, Place{.path = path});
  fail_open(path, error);
}

// For calls that an O_PATH descriptor does not allow.
Fd reopened(Handle folder) {
  return Fd(retry([&] { return ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
}

// The reading half of Io. It keeps the names under which descriptors were opened, for messages.
class PosixReading : public Io {
 public:
  Handle open_read(const std::string& path) override {
    Fd fd(retry([&] { return ::open(path.c_str(), posix::read_flags()); }));
    if (!fd) fail_open(path, errno);
    return keep_regular(std::move(fd), path);
  }

  std::optional<Handle> open_beneath(const std::string& root, std::string_view name, FollowLinks links) override {
    const std::string clean = clean_name(root, name);
    const std::string path = joined(root, clean);
    const std::string folder = root.empty() ? "." : root;
    const Fd at(retry([&] { return ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC); }));
    if (!at) return absent_or_fail(path, errno);
    Fd fd(links == FollowLinks::kAll ? retry([&] { return ::openat(at.get(), clean.c_str(), posix::read_flags()); })
                                     : open_without_links(at.get(), clean));
    if (!fd) return absent_or_fail(path, errno);
    return keep_regular(std::move(fd), path);
  }

  size_t read(Handle file, uint64_t offset, MutableBytes buffer) override {
    const ssize_t n = retry([&] { return ::pread(file, buffer.data(), buffer.size(), static_cast<off_t>(offset)); });
    if (n < 0) fail_at(ProblemId::io_read, file, offset, buffer.size(), errno);
    return static_cast<size_t>(n);
  }

  FileFacts facts(Handle file) override {
    struct stat status{};
    if (::fstat(file, &status) != 0) fail_handle(ProblemId::io_read, file, errno);
    return facts_of(status);
  }

  std::optional<FileFacts> facts(const std::string& path) override {
    struct stat status{};
    int result = ::lstat(path.c_str(), &status);
    const bool link = result == 0 && S_ISLNK(status.st_mode);
    if (link) result = ::stat(path.c_str(), &status);
    if (result == 0) {
      FileFacts facts = facts_of(status);
      facts.link = link;
      return facts;
    }
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) return std::nullopt;
    io_fail(ProblemId::io_open, path, error);
  }

  std::vector<DirEntry> list(const std::string& folder) override {
    Fd fd(retry([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!fd) io_fail(ProblemId::io_list, folder, errno);
    return entries_of(std::move(fd), folder);
  }

  // A folder's handle is an O_PATH descriptor: we may be allowed to write into a folder that we may not read.
  Handle open_folder(const std::string& path) override {
    Fd fd(retry([&] { return ::open(path.empty() ? "." : path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC); }));
    if (!fd) io_fail(ProblemId::io_open, path.empty() ? "." : path, errno);
    return keep(std::move(fd), path);
  }

  std::optional<Handle> open_folder(Handle folder, const std::string& name) override {
    Fd fd(retry([&] { return ::openat(folder, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }));
    if (fd) return keep(std::move(fd), joined(name_of(folder), name));
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return std::nullopt;
    fail_in(ProblemId::io_open, folder, name, errno);
  }

  std::optional<FileFacts> facts(Handle folder, const std::string& name) override {
    struct stat status{};
    if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
      FileFacts facts = facts_of(status);
      facts.link = S_ISLNK(status.st_mode);
      return facts;
    }
    if (errno == ENOENT) return std::nullopt;
    fail_in(ProblemId::io_open, folder, name, errno);
  }

  std::vector<DirEntry> list(Handle folder) override {
    Fd fd = reopened(folder);
    if (!fd) fail_handle(ProblemId::io_list, folder, errno);
    return entries_of(std::move(fd), name_of(folder));
  }

  // Errors of close(2) are ignored: everything that must last was synced before.
  void close(Handle file) override {
    {
      const std::lock_guard lock(mutex_);
      names_.at(static_cast<size_t>(file)).clear();  // before the descriptor can be given out again
    }
    ::close(file);
  }

  std::string name_of(Handle file) override {
    const std::lock_guard lock(mutex_);
    return names_.at(static_cast<size_t>(file));
  }

  uint64_t now_ns() override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }

 protected:
  Handle keep(Fd fd, const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<size_t>(fd.get());
    if (names_.size() <= index) names_.resize(index + 1);
    names_[index] = path;
    return fd.release();
  }

  Handle keep_regular(Fd fd, const std::string& path) {
    struct stat status{};
    if (::fstat(fd.get(), &status) != 0) io_fail(ProblemId::io_open, path, errno);
    if (!S_ISREG(status.st_mode)) fail(ProblemId::not_regular, Place{.path = path}, kind_text(status.st_mode));
    return keep(std::move(fd), path);
  }

  // output_exists does not take the system's text: its own says everything.
  [[noreturn]] void fail_in(ProblemId id, Handle folder, const std::string& name, int error) {
    Place place{.path = joined(name_of(folder), name)};
    if (id == ProblemId::output_exists) fail(id, std::move(place));
    io_fail(id, std::move(place), error);
  }

  [[noreturn]] void fail_handle(ProblemId id, Handle file, int error) { io_fail(id, name_of(file), error); }

  [[noreturn]] void fail_at(ProblemId id, Handle file, uint64_t offset, uint64_t length, int error) {
    io_fail(id, Place{.path = name_of(file), .offset = offset, .length = length}, error);
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> names_;  // by descriptor
};

class PosixIo final : public PosixReading {
 public:
  WriteCapabilities write_capabilities(Handle folder) override {
    WriteCapabilities can;
    struct statfs fs{};
    can.keeps_ids = ::fstatfs(folder, &fs) != 0 || fs.f_type != FUSE_SUPER_MAGIC;
    struct stat status{};
    const std::lock_guard lock(mutex_);
    can.reserves = ::fstat(folder, &status) != 0 || std::ranges::find(not_reserving_, status.st_dev) == not_reserving_.end();
    return can;
  }

  void check_writable(const std::string& folder) override {
    if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) io_fail(ProblemId::io_create, folder, errno);
  }

  // Readable as well, so that what was written can be checked. Never truncated: a concurrent dcpctl may be writing to it, and only the lock
  // can tell.
  Handle create(Handle folder, const std::string& name) override {
    const std::string path = joined(name_of(folder), name);  // allocated first: out of memory must not leave the file behind
    Fd fd(retry([&] { return ::openat(folder, name.c_str(), kWriteFlags | O_CREAT | O_EXCL, 0666); }));
    if (!fd) fail_in(errno == EEXIST ? ProblemId::output_exists : ProblemId::io_create, folder, name, errno);
    try {
      return keep(std::move(fd), path);
    } catch (...) {
      ::unlinkat(folder, name.c_str(), 0);  // nobody else knows that it exists
      throw;
    }
  }

  std::optional<Handle> open_write(Handle folder, const std::string& name) override {
    Fd fd(retry([&] { return ::openat(folder, name.c_str(), kWriteFlags); }));
    const int error = errno;
    if (!fd && error == ENOENT) return std::nullopt;
    const std::string path = joined(name_of(folder), name);
    if (!fd) io_fail(ProblemId::io_create, path, error);
    struct stat status{};
    if (::fstat(fd.get(), &status) != 0) io_fail(ProblemId::io_create, path, errno);
    if (!S_ISREG(status.st_mode)) fail(ProblemId::io_create, Place{.path = path}, kind_text(status.st_mode), "a regular file");
    return keep(std::move(fd), path);
  }

  size_t write(Handle file, uint64_t offset, Bytes bytes) override {
    const ssize_t n = retry([&] { return ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (n < 0) fail_at(ProblemId::io_write, file, offset, bytes.size(), errno);
    return static_cast<size_t>(n);
  }

  size_t write_past_cache(Handle file, uint64_t offset, Bytes bytes) override {
    if (bytes.size() < kMinPastCache || !passes_cache_.load(std::memory_order_relaxed)) return write(file, offset, bytes);
    const ssize_t n = retry([&] { return posix::pwrite_past_cache(file, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (n >= 0) return static_cast<size_t>(n);
    // Either this file system cannot do it, or the ordinary write will meet the same error.
    passes_cache_.store(false, std::memory_order_relaxed);
    return write(file, offset, bytes);
  }

  void allocate(Handle file, uint64_t bytes) override {
    const auto size = static_cast<off_t>(bytes);
    if (retry([&] { return ::ftruncate(file, size); }) != 0) fail_handle(ProblemId::io_write, file, errno);
    if (bytes == 0 || retry([&] { return ::fallocate(file, 0, 0, size); }) == 0) return;
    if (errno != EOPNOTSUPP && errno != ENOSYS) fail_handle(ProblemId::io_write, file, errno);
    struct stat status{};
    if (::fstat(file, &status) != 0) fail_handle(ProblemId::io_write, file, errno);
    constexpr uint64_t kStatBlockBytes = 512;  // the unit of st_blocks, whatever st_blksize is
    check_free_space(file, name_of(file), bytes, static_cast<uint64_t>(status.st_blocks) * kStatBlockBytes);
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(not_reserving_, status.st_dev) == not_reserving_.end()) not_reserving_.push_back(status.st_dev);
  }

  void drop_cache(Handle file) override { ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED); }

  void sync(Handle file) override {
    if (retry([&] { return ::fsync(file); }) != 0) fail_handle(ProblemId::io_sync, file, errno);
  }

  void sync_part(Handle file, uint64_t offset, uint64_t bytes) override {
    constexpr unsigned kWrittenAndWaitedFor = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (::sync_file_range(file, static_cast<off_t>(offset), static_cast<off_t>(bytes), kWrittenAndWaitedFor) == 0) return;
    // A descriptor reports a failed write-back once. What else there is, fsync will meet, or it is no file that can do this.
    if (errno == EIO || errno == ENOSPC || errno == EDQUOT) fail_handle(ProblemId::io_sync, file, errno);
  }

  void sync_folder(Handle folder) override {
    const Fd fd = reopened(folder);
    if (!fd) fail_handle(ProblemId::io_sync, folder, errno);
    if (retry([&] { return ::fsync(fd.get()); }) == 0) return;
    // EINVAL: the file system has nothing to sync for a folder.
    if (errno != EINVAL) fail_handle(ProblemId::io_sync, folder, errno);
  }

  void make_folder(Handle folder, const std::string& name) override {
    if (::mkdirat(folder, name.c_str(), 0777) != 0)
      fail_in(errno == EEXIST ? ProblemId::output_exists : ProblemId::io_create, folder, name, errno);
  }

  // A user outside the folder's group would clear its set-group-ID bit, which gives the group to new files.
  std::optional<uint32_t> make_private(Handle folder) override {
    const Fd fd = reopened(folder);
    struct stat was{};
    if (!fd || ::fstat(fd.get(), &was) != 0) return std::nullopt;
    if ((was.st_mode & S_ISGID) != 0 && !posix::is_in_group(was.st_gid)) return std::nullopt;
    if (::fchmod(fd.get(), (was.st_mode & (S_ISGID | S_ISVTX)) | S_IRWXU) != 0) return std::nullopt;
    return was.st_mode & 07777u;
  }

  void set_permissions(Handle folder, uint32_t permissions) override {
    const Fd fd = reopened(folder);
    if (!fd || ::fchmod(fd.get(), permissions) != 0) fail_handle(ProblemId::io_create, folder, errno);
  }

  void set_modified(Handle folder, const std::string& name, int64_t ns) override {
    const timespec times[] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000}};
    (void)::utimensat(folder, name.c_str(), times, AT_SYMLINK_NOFOLLOW);
  }

  void rename(Handle folder, const std::string& from, const std::string& to, Replace replace) override {
    int result =
        replace == Replace::kYes ? ::renameat(folder, from.c_str(), folder, to.c_str()) : posix::rename_new_by_kernel(folder, from, to);
    const bool lacking = replace == Replace::kNo && (errno == EINVAL || errno == ENOSYS || errno == EPERM);
    if (result != 0 && lacking) result = posix::rename_new_by_link(folder, from, to);
    if (result == 0) return;
    if (replace == Replace::kNo && errno == EEXIST) fail_in(ProblemId::output_exists, folder, to, errno);
    fail_in(ProblemId::io_rename, folder, from, errno);
  }

  // False if there are no hard links, no /proc, or the file has no name left: the caller then takes another way, which reports what is
  // wrong.
  bool link(Handle file, Handle folder, const std::string& name) override {
    if (posix::link_open(file, folder, name) == 0) return true;
    if (errno == EEXIST) fail_in(ProblemId::output_exists, folder, name, errno);
    return false;
  }

  bool clone(Handle from, Handle to) override {
    if (retry([&] { return ::ioctl(to, FICLONE, from); }) == 0) return true;
    if (errno == ENOSPC || errno == EDQUOT || errno == EIO) fail_handle(ProblemId::io_write, to, errno);
    return false;  // another file system, or one without it
  }

  void remove_file(Handle folder, const std::string& name) override {
    if (::unlinkat(folder, name.c_str(), 0) != 0 && errno != ENOENT) fail_in(ProblemId::io_remove, folder, name, errno);
  }

  void remove_folder(Handle folder, const std::string& name) override {
    if (::unlinkat(folder, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) fail_in(ProblemId::io_remove, folder, name, errno);
  }

  bool try_lock(Handle file) override {
    if (retry([&] { return ::flock(file, LOCK_EX | LOCK_NB); }) == 0) return true;
    if (errno == EWOULDBLOCK) return false;
    // Lustre without `-o flock` and NFS without lockd: work goes on, and only a concurrent dcpctl goes unnoticed.
    if (errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK) return true;
    fail_handle(ProblemId::io_create, file, errno);
  }

  std::optional<uint64_t> free_bytes(const std::string& folder) override {
    struct statvfs fs{};
    if (::statvfs(folder.c_str(), &fs) != 0) return std::nullopt;
    return free_bytes_of(fs);
  }

 private:
  std::atomic<bool> passes_cache_{true};  // until a file system says that it cannot
  std::mutex mutex_;                      // of not_reserving_
  std::vector<dev_t> not_reserving_;      // file systems
};

}  // namespace

std::unique_ptr<Io> make_posix_io() { return std::make_unique<PosixIo>(); }

}  // namespace dcp
