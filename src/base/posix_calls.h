// System calls that older kernels and some file systems lack, each with its replacement. For code that makes system calls itself: posix_io,
// the sandbox, ranks/door.
//
// They use errno like the calls they wrap: -1 and errno on failure, otherwise a descriptor or 0.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/io.h"

namespace dcp::posix {

// A descriptor that closes itself, for those that never become a Handle.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Retries while interrupted by a signal.
template <class Call>
auto retry(Call call) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

// Opening a FIFO for reading without O_NONBLOCK waits for a writer, and a terminal must not become ours.
int read_flags();

// Opens `name` beneath the folder `root` for reading. `name` is clean: relative, no empty component, no "." and no "..". ELOOP: a link on
// the way (by_walk: one that is not of the Hugging Face cache's form).
int open_beneath_by_kernel(int root, const std::string& name);  // openat2; ENOSYS before Linux 5.6, EPERM under old seccomp filters
int open_beneath_by_walk(int root, const std::string& name);    // component by component; follows a final cache link

// Whether this process is in the group. Not glibc's group_member(): musl has none.
bool is_in_group(gid_t group);

// Renames in `folder` where `to` does not exist; EEXIST where it does.
int rename_new_by_kernel(int folder, const std::string& from, const std::string& to);  // renameat2; EINVAL on file systems without it
int rename_new_by_link(int folder, const std::string& from, const std::string& to);

// Adds a name to an open file; EEXIST if the name exists.
int link_open(int file, int folder, const std::string& name);

// A pwrite whose pages are written back at once and then leave the cache (RWF_DONTCACHE). EOPNOTSUPP if the kernel or file system lacks it.
ssize_t pwrite_past_cache(int file, const void* bytes, size_t count, off_t offset);

// Linux's facts about files as Io's types, and its errors as Problems.

// "permission denied"
std::string reason_of(int error);
// `error` is a parameter because building the place may change errno. A full disk is io_no_space, whatever `id` is.
[[noreturn]] void io_fail(ProblemId id, Place place, int error);
[[noreturn]] void io_fail(ProblemId id, const std::string& path, int error);

const char* kind_text(mode_t mode);  // for anything but a regular file: "a folder"
FileFacts facts_of(const struct stat& status);

// The entries of the folder open as `fd`, sorted by name. Throws io_list.
std::vector<DirEntry> entries_of(Fd fd, const std::string& folder);

}  // namespace dcp::posix
