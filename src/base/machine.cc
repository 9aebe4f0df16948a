#include "base/machine.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/limits.h"
#include "base/posix_calls.h"
#include "base/problem.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace dcp {
namespace {

using posix::Fd;
using posix::retry;

constexpr const char *kOwnGroups = "/proc/self/cgroup", *kGroupMount = "/sys/fs/cgroup";

// The process's control group below the mount of one controller: version 2 writes "0::/a/b", version 1 "4:memory:/a/b".
struct Group {
  std::string mount, path;
};
std::vector<Group> groups_of(std::string_view text, const std::string& mount, std::string_view controller) {
  std::vector<Group> groups;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",", path = line.substr(second + 1);
    if (names == ",,") groups.insert(groups.end(), {{mount, path}, {mount + "/unified", path}});
    else if (names.find("," + std::string(controller) + ",") != std::string::npos)
      groups.push_back({mount + "/" + names.substr(1, names.size() - 2), path});
  }
  return groups;
}

// Calls `look` with the group's folder and those above it. In a container the path may be the host's; then only the mount itself exists.
template <class Look>
void for_group_and_above(const Group& group, const Look& look) {
  for (std::string path = group.path == "/" ? "" : group.path;; path.resize(path.rfind('/'))) {
    look(group.mount + path);
    if (path.rfind('/') == std::string::npos) return;
  }
}

std::optional<double> core_quota(std::string_view groups, const std::string& mount) {
  std::optional<double> smallest;
  const auto take = [&](double quota, double period) {
    if (quota > 0 && period > 0) smallest = std::min(smallest.value_or(quota / period), quota / period);
  };
  for (const Group& group : groups_of(groups, mount, "cpu"))
    for_group_and_above(group, [&](const std::string& folder) {
      double quota = 0, period = 0;
      if (std::ifstream(folder + "/cpu.max") >> quota >> period) take(quota, period);  // "max 100000" has no number first
      if (std::ifstream(folder + "/cpu.cfs_quota_us") >> quota && std::ifstream(folder + "/cpu.cfs_period_us") >> period)
        take(quota, period);
    });
  return smallest;
}

std::optional<uint64_t> limit_of(decltype(RLIMIT_NOFILE) what) {
  struct rlimit limit{};
  if (::getrlimit(what, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return uint64_t{limit.rlim_cur};
}

unsigned usable_cores(unsigned cores) {
  // The mask must be as long as the kernel's, which is longer than cpu_set_t on the largest machines.
  for (size_t n = 1024; n <= (1u << 20); n *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(n), [](cpu_set_t* s) { CPU_FREE(s); });
    if (set && ::sched_getaffinity(0, CPU_ALLOC_SIZE(n), set.get()) == 0)
      return static_cast<unsigned>(CPU_COUNT_S(CPU_ALLOC_SIZE(n), set.get()));
  }
  return cores;
}

// The type of the innermost mount that holds `path`; of several at one point, the last one.
std::string file_system_of(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  if (!real) return "";
  const std::string whole = std::string(real.get()) + "/";
  std::string type;
  size_t longest = 0;
  std::istringstream lines(kernel_text("/proc/self/mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skip, point, word;
    words >> skip >> skip >> skip >> skip >> point;
    for (size_t at; (at = point.find("\\040")) != std::string::npos;) point.replace(at, 4, " ");
    if (!point.ends_with('/')) point += '/';
    if (point.size() < longest || !whole.starts_with(point)) continue;
    while (words >> word && word != "-") {
    }
    if (words >> type) longest = point.size();
  }
  return type;
}

// A file in the folder that is removed when this is destroyed.
class Trial {
 public:
  Trial(int folder, const std::string& name) : folder_(folder), name_(name) {
    fd_ = Fd(retry([&] { return ::openat(folder, name.c_str(), O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL | O_NOFOLLOW, 0600); }));
    error_ = fd_ ? 0 : errno;
  }
  ~Trial() {
    if (fd_) ::unlinkat(folder_, name_.c_str(), 0);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  int get() const { return fd_.get(); }
  int error() const { return error_; }

 private:
  int folder_, error_ = 0;
  std::string name_;
  Fd fd_;
};

void try_out(int folder, FolderFacts& facts) {
  const std::string name = ".dcpctl-doctor-" + std::to_string(::getpid());
  const Trial one(folder, name), two(folder, name + "-2");
  const int error = one.error() != 0 ? one.error() : two.error();
  if (error != 0) {
    facts.refusal = posix::reason_of(error);
    return;
  }
  const std::vector<char> block(64 * kKiB);
  const auto size = static_cast<off_t>(block.size());
  facts.reserves = retry([&] { return ::fallocate(one.get(), 0, 0, size); }) == 0;
  facts.passes_cache = retry([&] { return posix::pwrite_past_cache(one.get(), block.data(), block.size(), 0); }) == size;
  if (!facts.passes_cache && retry([&] { return ::pwrite(one.get(), block.data(), block.size(), 0); }) < 0)
    facts.refusal = posix::reason_of(errno);
  facts.reflinks = retry([&] { return ::ioctl(two.get(), FICLONE, one.get()); }) == 0;
  facts.locks = retry([&] { return ::flock(one.get(), LOCK_EX | LOCK_NB); }) == 0;
  const std::string linked = name + "-3";
  facts.hard_links = posix::link_open(one.get(), folder, linked) == 0;
  if (facts.hard_links) ::unlinkat(folder, linked.c_str(), 0);
}

}  // namespace

std::string kernel_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<MemoryLimit> memory_limit(std::string_view groups, const std::string& mount) {
  constexpr uint64_t kNone = uint64_t{1} << 62;  // version 1 writes a number near 2^63 where there is no limit
  std::optional<MemoryLimit> smallest;
  for (const Group& group : groups_of(groups, mount, "memory"))
    for_group_and_above(group, [&](const std::string& folder) {
      for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
        uint64_t bytes = 0;
        if (std::ifstream(folder + name) >> bytes && bytes < kNone && (!smallest || bytes < smallest->bytes))
          smallest = {bytes, folder + name};
      }
    });
  return smallest;
}

std::optional<MemoryLimit> own_memory_limit() { return memory_limit(kernel_text(kOwnGroups), kGroupMount); }

MachineFacts machine_facts() {
  MachineFacts facts;
  utsname system{};
  if (::uname(&system) == 0) facts.system = std::string(system.sysname) + " " + system.release, facts.architecture = system.machine;
  std::array<char, 64> text{};
  if (::confstr(_CS_GNU_LIBC_VERSION, text.data(), text.size()) > 0) facts.c_library = text.data();
  facts.cores = static_cast<unsigned>(std::max(::get_nprocs(), 1));
  facts.usable_cores = usable_cores(facts.cores);
  facts.core_quota = core_quota(kernel_text(kOwnGroups), kGroupMount);
  facts.memory_limit = own_memory_limit();
  struct sysinfo memory{};
  if (::sysinfo(&memory) == 0) facts.memory_bytes = uint64_t{memory.totalram} * memory.mem_unit;
  std::istringstream meminfo(kernel_text("/proc/meminfo"));
  for (std::string line; std::getline(meminfo, line);) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kib) == 1) facts.available_bytes = kib * kKiB;
  }
  facts.locked_bytes = limit_of(RLIMIT_MEMLOCK);
  facts.open_files = limit_of(RLIMIT_NOFILE);
  facts.file_bytes = limit_of(RLIMIT_FSIZE);
  facts.address_bytes = limit_of(RLIMIT_AS);
  return facts;
}

FolderFacts probe_folder(const std::string& path) {
  const Fd folder(retry([&] { return ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC); }));
  if (!folder) posix::io_fail(ProblemId::io_open, path, errno);
  FolderFacts facts;
  facts.file_system = file_system_of(path);
  struct statvfs fs{};
  if (::statvfs(path.c_str(), &fs) == 0 && fs.f_blocks > 0)
    facts.bytes = uint64_t{fs.f_blocks} * fs.f_frsize, facts.free_bytes = uint64_t{fs.f_bavail} * fs.f_frsize;
  try_out(folder.get(), facts);
  return facts;
}

namespace {

#ifdef __x86_64__
struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf leaf(unsigned number) {
  Leaf l;
  __get_cpuid_count(number, 0, &l.a, &l.b, &l.c, &l.d);  // zeros if there is no such leaf
  return l;
}

// The registers that the operating system saves (XCR0).
uint32_t saved_registers() {
  uint32_t low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

constexpr bool all(uint32_t of, uint32_t bits) { return (of & bits) == bits; }
constexpr uint32_t bit(int n) { return uint32_t{1} << n; }

X86Features look_up() {
  const Leaf one = leaf(1), seven = leaf(7), extended = leaf(0x80000001);
  const uint32_t saved = all(one.c, bit(27)) ? saved_registers() : 0;  // OSXSAVE
  const bool avx = all(saved, 0x06), avx512 = all(saved, 0xe6) && all(seven.b, bit(16));
  X86Features f;
  f.pclmul = all(one.c, bit(1) | bit(19));
  f.vpclmul = f.pclmul && avx512 && all(seven.c, bit(10));
  // FMA, MOVBE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT
  f.v3 = avx && all(one.c, bit(12) | bit(22) | bit(28) | bit(29)) && all(seven.b, bit(3) | bit(5) | bit(8)) && all(extended.c, bit(5));
  f.v4 = f.v3 && avx512 && all(seven.b, bit(17) | bit(28) | bit(30) | bit(31));  // DQ, CD, BW, VL
  return f;
}
#else
X86Features look_up() { return {}; }
#endif

}  // namespace

const X86Features& x86_features() {
  static const X86Features features = look_up();
  return features;
}

}  // namespace dcp
