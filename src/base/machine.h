// What this machine has, as the system reports it: for `doctor`, and for anyone who asks why something is slower here than elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dcp {

// The whole of a file in /proc or /sys, whose size is not known before; "": it cannot be read.
std::string kernel_text(const std::string& path);

// The lowest limit of the process's control group and the groups above it.
struct MemoryLimit {
  uint64_t bytes = 0;
  std::string file;  // which sets it
};
// `groups`: the text of /proc/self/cgroup; `mount`: where version 2 is mounted, and version 1 below it. nullopt: no limit is set.
std::optional<MemoryLimit> memory_limit(std::string_view groups, const std::string& mount);
std::optional<MemoryLimit> own_memory_limit();  // of this process

struct MachineFacts {
  std::string system, architecture, c_library;  // "Linux 6.18.44", "x86_64", "glibc 2.41"
  unsigned cores = 1, usable_cores = 1;         // online, and those that the process may run on
  std::optional<double> core_quota;             // of the control group
  uint64_t memory_bytes = 0, available_bytes = 0;
  std::optional<MemoryLimit> memory_limit;
  // Limits of the process; nullopt: none.
  std::optional<uint64_t> locked_bytes, open_files, file_bytes, address_bytes;
};
MachineFacts machine_facts();

// What a folder's file system can do. It is tried with files of a few bytes, which are removed afterwards.
struct FolderFacts {
  std::string file_system;                    // "ext4"; "": not known
  std::optional<uint64_t> bytes, free_bytes;  // for an ordinary user; nullopt: it does not say
  std::string refusal;                        // why no file can be created there; the rest is then unknown
  bool reserves = false, reflinks = false, hard_links = false, locks = false, passes_cache = false;
};
// Throws io_open where there is no such folder.
FolderFacts probe_folder(const std::string& path);

// Features of an x86-64 processor whose registers the operating system saves. They are read from CPUID: __builtin_cpu_supports needs a
// runtime library that not every compiler has.

struct X86Features {
  bool pclmul = false;   // and SSE4.1
  bool vpclmul = false;  // 64 bytes at once, and AVX-512F
  bool v3 = false;       // x86-64-v3, as far as it is above v2
  bool v4 = false;       // x86-64-v4
};

// Determined once. On other processors, all are false.
const X86Features& x86_features();

}  // namespace dcp
