// The GPUs of this machine, through libdcpctl_cuda.so.
#pragma once

#include <string>
#include <vector>

#include "modules/device.h"

namespace dcp {

// Opens the module (modules/loader.h). Throws module_missing, module_broken, module_differs; device_missing, with the driver's reason,
// where there is no GPU.
const DcpctlDeviceTable& cuda_device_table(const std::vector<std::string>& module_folders);

}  // namespace dcp
