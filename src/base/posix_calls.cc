#include "base/posix_calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace dcp::posix {
namespace {

constexpr int kFolderFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;

int fail_with(int error) {
  errno = error;
  return -1;
}

// The flag came with Linux 6.14, where it was buggy at first; 6.18 is the first long-term release that has it.
bool is_trusted_kernel() {
  static const bool trusted = [] {
    utsname system{};
    int major = 0, minor = 0;
    return ::uname(&system) == 0 && std::sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
           std::pair(major, minor) >= std::pair(6, 18);
  }();
  return trusted;
}

// One step of the walk: the folder `name` in `parent`. O_PATH with O_NOFOLLOW opens a link itself, so the descriptor is checked after
// opening, and nothing can be swapped in between.
Fd open_folder(int parent, const std::string& name) {
  Fd folder(retry([&] { return ::openat(parent, name.c_str(), kFolderFlags); }));
  if (!folder) return folder;
  struct stat status{};
  if (::fstat(folder.get(), &status) != 0) return Fd();
  if (S_ISDIR(status.st_mode)) return folder;
  folder = Fd();  // before errno is set, as closing may change it
  errno = S_ISLNK(status.st_mode) ? ELOOP : ENOTDIR;
  return Fd();
}

std::optional<std::string> read_link(int folder, const std::string& name) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlinkat(folder, name.c_str(), target.data(), target.size());
  if (size <= 0) return std::nullopt;
  target.resize(static_cast<size_t>(size));
  return target;
}

// The Hugging Face cache keeps files as `blobs/HASH` and shows them as `snapshots/REVISION/NAME -> ../../blobs/HASH`, with one more `../`
// for each folder in NAME. No other form is followed: `..` steps are not links, and `blobs` and HASH must not be links.
int open_cache_link(int folder, const std::string& name) {
  const std::optional<std::string> target = read_link(folder, name);
  if (!target) return fail_with(ELOOP);
  std::string_view rest = *target;
  size_t ups = 0;
  for (; rest.starts_with("../"); ++ups) rest.remove_prefix(3);
  constexpr std::string_view kBlobs = "blobs/";
  if (ups == 0 || !rest.starts_with(kBlobs)) return fail_with(ELOOP);
  const std::string blob(rest.substr(kBlobs.size()));
  if (blob.empty() || blob == "." || blob == ".." || blob.find('/') != std::string::npos) return fail_with(ELOOP);

  const Fd blobs = open_folder(folder, target->substr(0, 3 * ups) + "blobs");
  if (!blobs) return -1;
  return retry([&] { return ::openat(blobs.get(), blob.c_str(), read_flags() | O_NOFOLLOW); });
}

}  // namespace

int read_flags() { return O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY; }

int open_beneath_by_kernel(int root, const std::string& name) {
  struct open_how how{};
  how.flags = static_cast<unsigned>(read_flags());
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  return static_cast<int>(retry([&] { return ::syscall(SYS_openat2, root, name.c_str(), &how, sizeof how); }));
}

int open_beneath_by_walk(int root, const std::string& name) {
  Fd folder;
  int at = root;
  size_t begin = 0;
  for (size_t slash; (slash = name.find('/', begin)) != std::string::npos; begin = slash + 1) {
    Fd next = open_folder(at, name.substr(begin, slash - begin));
    if (!next) return -1;
    folder = std::move(next);
    at = folder.get();
  }
  const std::string last = name.substr(begin);
  const int file = retry([&] { return ::openat(at, last.c_str(), read_flags() | O_NOFOLLOW); });
  return file < 0 && errno == ELOOP ? open_cache_link(at, last) : file;
}

int rename_new_by_kernel(int folder, const std::string& from, const std::string& to) {
  constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE; musl lacks it, and the function
  return static_cast<int>(::syscall(SYS_renameat2, folder, from.c_str(), folder, to.c_str(), kNoReplace));
}

bool is_in_group(gid_t group) {
  if (group == ::getegid()) return true;
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> groups(static_cast<size_t>(std::max(count, 0)));
  return ::getgroups(count, groups.data()) >= 0 && std::ranges::find(groups, group) != groups.end();
}

// link(2) never replaces, so a file appears under its new name whole or not at all. For folders, and on file systems without hard links,
// the target is checked before the rename: the output's lock keeps out a concurrent dcpctl in between.
int rename_new_by_link(int folder, const std::string& from, const std::string& to) {
  struct stat status{};
  if (::fstatat(folder, from.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return -1;
  if (!S_ISDIR(status.st_mode)) {
    if (::linkat(folder, from.c_str(), folder, to.c_str(), 0) == 0) return ::unlinkat(folder, from.c_str(), 0);
    if (errno == EEXIST) return -1;
  }
  if (::fstatat(folder, to.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return fail_with(EEXIST);
  if (errno != ENOENT) return -1;
  return ::renameat(folder, from.c_str(), folder, to.c_str());
}

// AT_EMPTY_PATH would do the same without /proc, but for privileged processes only. The path is not a std::string, because nothing is
// allocated once an output is complete.
int link_open(int file, int folder, const std::string& name) {
  char self[32];
  std::snprintf(self, sizeof self, "/proc/self/fd/%d", file);
  return ::linkat(AT_FDCWD, self, folder, name.c_str(), AT_SYMLINK_FOLLOW);
}

ssize_t pwrite_past_cache(int file, const void* bytes, size_t count, off_t offset) {
  constexpr int kDontCache = 0x80;  // RWF_DONTCACHE, which older headers lack
  const iovec whole{.iov_base = const_cast<void*>(bytes), .iov_len = count};
  return is_trusted_kernel() ? ::pwritev2(file, &whole, 1, offset, kDontCache) : fail_with(EOPNOTSUPP);
}

namespace {

bool is_full(int error) { return error == ENOSPC || error == EDQUOT; }

FileKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::kRegular;
  return S_ISDIR(mode) ? FileKind::kDirectory : FileKind::kOther;
}

DirEntry entry_of(int folder, const struct dirent& entry) {
  const std::string name = entry.d_name;
  if (entry.d_type == DT_REG) return {name, FileKind::kRegular};
  if (entry.d_type == DT_DIR) return {name, FileKind::kDirectory};
  struct stat status{};  // a link, or a file system that does not say; a dangling link is kOther
  const bool link = ::fstatat(folder, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
  const bool known = ::fstatat(folder, entry.d_name, &status, 0) == 0;
  return {name, known ? kind_of(status.st_mode) : FileKind::kOther, link};
}

}  // namespace

std::string reason_of(int error) {
  std::string reason = std::system_category().message(error);
  if (reason.size() > 1 && std::islower(static_cast<unsigned char>(reason[1])) != 0) reason[0] = static_cast<char>(std::tolower(reason[0]));
  return reason;
}

void io_fail(ProblemId id, Place place, int error) {
  fail(is_full(error) ? ProblemId::io_no_space : id, std::move(place), reason_of(error));
}
void io_fail(ProblemId id, const std::string& path, int error) { io_fail(id, Place{.path = path}, error); }

const char* kind_text(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

FileFacts facts_of(const struct stat& status) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  return {.bytes = static_cast<uint64_t>(status.st_size),
          .kind = kind_of(status.st_mode),
          .modified_ns = int64_t{status.st_mtim.tv_sec} * kNsPerSecond + status.st_mtim.tv_nsec,
          .id = {status.st_dev, status.st_ino},
          .owner = status.st_uid,
          .names = status.st_nlink};
}

std::vector<DirEntry> entries_of(Fd fd, const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::fdopendir(fd.get()), ::closedir);
  if (!dir) io_fail(ProblemId::io_list, folder, errno);
  fd.release();  // the stream owns it now
  std::vector<DirEntry> entries;
  for (;;) {
    errno = 0;  // the only way to tell the end from an error
    const struct dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") entries.push_back(entry_of(::dirfd(dir.get()), *entry));
  }
  if (errno != 0) io_fail(ProblemId::io_list, folder, errno);
  std::sort(entries.begin(), entries.end(), [](const DirEntry& a, const DirEntry& b) { return a.name < b.name; });
  return entries;
}

}  // namespace dcp::posix
