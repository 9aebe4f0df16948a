#include "app/doctor.h"

#include <fstream>
#include <iterator>

#include "app/resources.h"
#include "base/file_names.h"
#include "base/sandbox.h"
#include "base/stores.h"
#include "base/workers.h"
#include "modules/loader.h"

namespace dcp {
namespace {

template <class T>
const T* try_module(const std::vector<std::string>& folders, const ModuleKind<T>& kind, DoctorResult& result) {
  ModuleFacts facts{
      .name = kind.name, .path = module_path(folders, kind.name).value_or(""), .built_with = {}, .needs = kind.needs, .refusal = {}};
  const T* table = nullptr;
  if (!facts.path.empty()) {
    try {
      table = &open_module(folders, kind);
      facts.built_with = table->header.built_with;
    } catch (const Error& error) {
      facts.refusal = to_line(error.problem());
    }
  }
  result.modules.push_back(std::move(facts));
  return table;
}

void look_at_gpus(const DcpctlDeviceTable& table, DoctorResult& result) {
  DcpctlReason why{};
  uint32_t count = 0;
  if (table.count(&count, &why) != 0) result.no_gpus = why.text;
  for (uint32_t d = 0; d < count; ++d) {
    DcpctlDeviceFacts facts{};
    if (table.describe(d, &facts, &why) == 0) result.gpus.push_back(facts);
    else result.no_gpus = "GPU " + std::to_string(d) + ": " + why.text;
  }
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu ...": the first word that is a number with points.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;)
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return "";
}

void look_at_libraries(DoctorResult& result) {
  for (const ModuleFacts& m : result.modules)
    if (m.built_with.starts_with("torch ")) result.torch = m.built_with.substr(6);
  if (!result.torch.empty()) result.torch_path = library_path("libtorch_cpu.so", "aoti_torch_abi_version");
  result.nccl = library_version("libnccl.so.2", "ncclGetVersion");
  result.nccl_path = library_path("libnccl.so.2", "ncclGetVersion");
  result.driver_cuda = library_version("libcuda.so.1", "cuDriverGetVersion");
  result.driver = driver_version();
}

std::string folder_of(const std::string& path, Io& io) {
  const std::optional<FileFacts> facts = io.facts(path);
  return facts && facts->kind == FileKind::kRegular ? folder_around(path) : path;
}

}  // namespace

void doctor(const DoctorRequest& request, World& world, DoctorResult& result) {
  check_on_disk(world.store, request.folder);
  result.folder = folder_of(request.folder, world.io);
  result.folder_facts = probe_folder(result.folder);
  result.machine = machine_facts();
  result.isa = best_isa();
  result.threads = default_workers();
  result.reading_cap = default_reading_cap();
  result.landlock = landlock_version();
  try_module(request.module_folders, kGlooModule, result);
  try_module(request.module_folders, kNcclModule, result);
  world.check_stop();
  if (const DcpctlDeviceTable* const cuda = try_module(request.module_folders, kCudaModule, result)) look_at_gpus(*cuda, result);
  try_module(request.module_folders, kNetModule, result);
  look_at_libraries(result);
}

}  // namespace dcp
