// What this build, this machine and a folder have of what commands can use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/world.h"
#include "base/machine.h"
#include "kernels/isa.h"
#include "modules/device.h"

namespace dcp {

struct DoctorRequest {
  std::string folder;  // or a file in it
  std::vector<std::string> module_folders;
};

// A module that is there is opened, with all that it needs.
struct ModuleFacts {
  std::string name, path;  // "c10d"; "": it is in none of the folders
  std::string built_with;  // "torch 2.11.0"
  std::string needs;       // what a build must have for it
  std::string refusal;     // why one that is there cannot be used
  bool works() const { return !built_with.empty(); }
};

struct DoctorResult {
  std::vector<ModuleFacts> modules;  // c10d, c10d_nccl, cuda
  std::string torch_path, torch;     // the LibTorch that a module has brought, and "2.11.0", with which it was built; "": none
  int nccl = 0, driver_cuda = 0;     // 22703: 2.27.3; 12080: 12.8, the newest that the driver knows. 0: there is none
  std::string nccl_path, driver;     // "570.86.15"
  std::vector<DcpctlDeviceFacts> gpus;
  std::string no_gpus;  // why there are none
  MachineFacts machine;
  Isa isa{};
  unsigned threads = 1;  // that a command works with where it is not told
  uint64_t reading_cap = 0;
  int landlock = 0;  // the version of what the kernel has; 0: nothing
  std::string folder;
  FolderFacts folder_facts;
};

// Throws io_open where the folder is not there.
void doctor(const DoctorRequest& request, World& world, DoctorResult& result);

}  // namespace dcp
