// Opens modules: shared libraries for what dcpctl itself must not link (LibTorch, CUDA). None is loaded until a command needs it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "modules/device.h"
#include "modules/net.h"
#include "modules/table.h"
#include "modules/transport.h"

namespace dcp {

// A kind of module. `T` is its table.
template <class T>
struct ModuleKind {
  const char* name;    // of libdcpctl_NAME.so
  const char* symbol;  // extern "C" function returning const T*
  uint32_t abi;
  const char* needs;  // how to get it, for the error: "a build with LibTorch (cmake -DDCPCTL_WITH_TORCH=ON)"
};

// The path of the module in the first of `folders` that has it; nullopt: none has.
std::optional<std::string> module_path(const std::vector<std::string>& folders, std::string_view name);

// The same for any table.
struct UntypedModuleKind {
  const char *name, *symbol;
  uint32_t abi, bytes;  // of the table
  const char* needs;
};

// All modules in `folders`, found but not loaded: their paths by name.
std::map<std::string, std::string> modules_in(const std::vector<std::string>& folders);

// The table of the module in the first of `folders` that has its file; it stays loaded until the program ends. Throws module_missing,
// module_broken (the linker's reason), module_differs (of another build).
const DcpctlModuleHeader& open_module(const std::vector<std::string>& folders, const UntypedModuleKind& kind);

template <class T>
const T& open_module(const std::vector<std::string>& folders, const ModuleKind<T>& kind) {
  static_assert(sizeof(T) >= sizeof(DcpctlModuleHeader));
  return reinterpret_cast<const T&>(open_module(folders, UntypedModuleKind{kind.name, kind.symbol, kind.abi, sizeof(T), kind.needs}));
}

// The path of the loaded library that has `symbol`. "": none.
std::string library_path(const char* library, const char* symbol);
// The version from `int function(int* version)` of a system library, or of a loaded one. 0: there is no such library.
int library_version(const char* library, const char* function);

// --- the modules, and what a build needs for each

inline constexpr ModuleKind<DcpctlTransportTable> kGlooModule{
    .name = "c10d",
    .symbol = "dcpctl_transport",
    .abi = kDcpctlTransportAbi,
    .needs = "pip's package dcpctl_c10d beside torch, or a build with LibTorch (cmake -DDCPCTL_WITH_TORCH=ON)"};
inline constexpr ModuleKind<DcpctlTransportTable> kNcclModule{.name = "c10d_nccl",
                                                              .symbol = "dcpctl_transport",
                                                              .abi = kDcpctlTransportAbi,
                                                              .needs = "a build with a LibTorch that has CUDA (pip install torch) and the "
                                                                       "CUDA Toolkit (nvidia-cuda-toolkit): cmake -DDCPCTL_WITH_TORCH=ON"};
inline constexpr ModuleKind<DcpctlDeviceTable> kCudaModule{
    .name = "cuda",
    .symbol = "dcpctl_device",
    .abi = kDcpctlDeviceAbi,
    .needs = "a build with the CUDA Toolkit (nvidia-cuda-toolkit): cmake -DDCPCTL_WITH_CUDA=ON"};
inline constexpr ModuleKind<DcpctlNetTable> kNetModule{
    .name = "net",
    .symbol = "dcpctl_net",
    .abi = kDcpctlNetAbi,
    .needs = "the program of a wheel or a .deb, or a build with libcurl and OpenSSL (libcurl4-openssl-dev libssl-dev): "
             "cmake -DDCPCTL_WITH_NET=ON"};

}  // namespace dcp
