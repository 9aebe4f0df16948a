// Landlock: the process gives up, for good, what it does not need. A second wall behind the readers, should one of them be fooled.
//
// Linux 5.13 and later (the man page landlock(7)); what later kernels add is used where they have it: truncation (6.2), TCP (6.7), device
// ioctls (6.10), abstract Unix sockets and signals to others (6.12). Descriptors that are open stay usable. Threads that start later are
// confined with the one that called; ones that run already are not, so this comes first.
#pragma once

#include <string>
#include <vector>

namespace dcp {

// What stays allowed. Each path stands for itself and all below it; one that does not exist is passed over. Landlock has no exceptions:
// where a folder may be written, all of it may.
struct Sandbox {
  std::vector<std::string> read;
  std::vector<std::string> write;  // folders: files and folders in them may be made, read, changed and removed
  bool read_everything = false;    // --follow-links: who knows where they lead
};

// 0: the kernel has no Landlock, or it is switched off.
int landlock_version();

// Programs can no longer be started, TCP no longer be used, files no longer be opened but as `allowed` says. False: the kernel has no
// Landlock, or it is switched off. Throws sandbox_failed where it has it and refuses.
bool enter_sandbox(const Sandbox& allowed);

}  // namespace dcp
