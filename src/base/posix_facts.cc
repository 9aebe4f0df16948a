#include "base/posix_facts.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <system_error>

namespace dcp::posix {
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
