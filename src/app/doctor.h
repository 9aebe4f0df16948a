// What this build, this machine and a folder offer to commands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/world.h"
#include "base/machine.h"
#include "kernels/kernels.h"
#include "modules/device.h"

namespace dcp {

struct DoctorRequest {
  std::string folder;  // or a file in it
  std::vector<std::string> module_folders;
};

// Facts about a module; if it exists, it is opened with everything that it needs.
struct ModuleFacts {
  std::string name, path;  // "c10d"; path "": in none of the folders
  std::string built_with;  // "torch 2.11.0"
  std::string needs;       // what a build needs for it
  std::string refusal;     // why an existing module cannot be used
  bool works() const { return !built_with.empty(); }
};

struct DoctorResult {
  std::vector<ModuleFacts> modules;  // c10d, c10d_nccl, cuda, net
  std::string torch_path, torch;     // the LibTorch that a module loaded, and the version it was built with, "2.11.0"; "": none
  int nccl = 0, driver_cuda = 0;     // 22703: 2.27.3; 12080: 12.8, the newest that the driver supports. 0: none
  std::string nccl_path, driver;     // "570.86.15"
  std::vector<DcpctlDeviceFacts> gpus;
  std::string no_gpus;  // why there are none
  MachineFacts machine;
  Isa isa{};
  unsigned threads = 1;  // default of commands
  uint64_t reading_cap = 0;
  int landlock = 0;  // the kernel's Landlock version; 0: none
  std::string folder;
  FolderFacts folder_facts;
};

// Throws io_open if the folder does not exist.
void doctor(const DoctorRequest& request, World& world, DoctorResult& result);

}  // namespace dcp
