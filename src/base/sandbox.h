// Landlock: the process irrevocably gives up rights that it does not need. A second line of defence, in case a reader is fooled.
//
// Linux 5.13 and later (the man page landlock(7)); newer rights are used where the kernel has them: truncation (6.2), TCP (6.7), device
// ioctls (6.10), abstract Unix sockets and signals to others (6.12). Open descriptors stay usable. Threads that the caller starts later are
// confined too; threads that are already running are not, so this comes first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dcp {

// The rights that the process keeps. Each path covers itself and everything below it; paths that do not exist are skipped. Landlock has no
// exceptions: if a folder is writable, everything in it is.
struct Sandbox {
  std::vector<std::string> read;
  std::vector<std::string> write;  // folders: files and folders in them may be created, read, changed and removed
  bool read_everything = false;    // links are followed, which may lead anywhere
  bool network = false;            // TCP
  std::vector<uint16_t> ports{};   // to which alone it may connect; none: any
};

// 0: the kernel has no Landlock, or it is switched off.
int landlock_version();

// Confines the process: no program can be started, and TCP and files can only be used as `allowed` says. False: the kernel has no Landlock,
// or it is switched off. Throws sandbox_failed if the kernel has it and refuses.
bool enter_sandbox(const Sandbox& allowed);
bool is_confined();

}  // namespace dcp
