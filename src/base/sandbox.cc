#include "base/sandbox.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <system_error>

#include "base/posix_calls.h"
#include "base/problem.h"

namespace dcp {
namespace {

// Constants that the headers of an older system lack. Numbers are the kernel's (include/uapi/linux/landlock.h of 6.12).
constexpr uint64_t kRefer = 1ull << 13, kTruncate = 1ull << 14, kIoctlDevice = 1ull << 15;
constexpr uint64_t kTcp = 3, kConnect = 2;  // bind and connect; the latter alone
constexpr int kPortRule = 2;                // LANDLOCK_RULE_NET_PORT
constexpr uint64_t kScopes = 3;             // abstract Unix sockets, signals

struct Ruleset {  // struct landlock_ruleset_attr, of 6.12
  uint64_t files = 0, network = 0, scopes = 0;
};

struct PortRule {  // struct landlock_net_port_attr
  uint64_t allowed, port;
};

constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kChange = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                             LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | kRefer | kTruncate;
constexpr uint64_t kNever = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                            LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM | kIoctlDevice;
// The rights that a rule for a file may contain; the others apply to folders.
constexpr uint64_t kOfFiles = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;

Ruleset known_to(int version) {
  uint64_t files = kRead | kChange | kNever;
  if (version < 2) files &= ~kRefer;
  if (version < 3) files &= ~kTruncate;
  if (version < 5) files &= ~kIoctlDevice;
  return {.files = files, .network = version >= 4 ? kTcp : 0, .scopes = version >= 6 ? kScopes : 0};
}

std::atomic<bool> g_is_confined = false;

[[noreturn]] void refuse(const std::string& path) { fail(ProblemId::sandbox_failed, Place{.path = path}, posix::reason_of(errno)); }

void allow(int ruleset, const std::string& path, uint64_t access) {
  if (access == 0) return;  // the kernel refuses an empty rule
  const posix::Fd at(posix::retry([&] { return ::open(path.c_str(), O_PATH | O_CLOEXEC); }));
  if (!at) return;  // the code that needs it reports it missing
  struct stat status{};
  if (::fstat(at.get(), &status) != 0) refuse(path);
  if (!S_ISDIR(status.st_mode)) access &= kOfFiles;
  const landlock_path_beneath_attr rule{.allowed_access = access, .parent_fd = at.get()};
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) refuse(path);
}

}  // namespace

int landlock_version() {
  return static_cast<int>(std::max(::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION), 0l));
}

bool enter_sandbox(const Sandbox& allowed) {
  const int version = landlock_version();
  if (version == 0) return false;
  Ruleset known = known_to(version);
  if (allowed.read_everything) known.files &= ~kRead;
  if (allowed.network && allowed.ports.empty()) known.network = 0;
  // An old kernel refuses a structure that is longer than its own, unless what it lacks is 0.
  const posix::Fd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &known, sizeof known, 0)));
  if (!ruleset) refuse({});
  for (const std::string& path : allowed.read) allow(ruleset.get(), path, kRead & known.files);
  for (const std::string& path : allowed.write) allow(ruleset.get(), path, (kRead | kChange) & known.files);
  for (const uint64_t port : allowed.ports) {
    const PortRule rule{.allowed = kConnect, .port = port};
    if (known.network != 0 && ::syscall(SYS_landlock_add_rule, ruleset.get(), kPortRule, &rule, 0) != 0) refuse({});
  }
  // An unprivileged process must give up new privileges before it may confine itself.
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) refuse({});
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) refuse({});
  return g_is_confined = true;
}

bool is_confined() { return g_is_confined; }

}  // namespace dcp
