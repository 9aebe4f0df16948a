// The modules, and what a build needs for each.
#pragma once

#include "modules/device.h"
#include "modules/loader.h"
#include "modules/transport.h"

namespace dcp {

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

}  // namespace dcp
