#include "staging/cuda_device.h"

#include "modules/loader.h"
#include "staging/device.h"

namespace dcp {

const DcpctlDeviceTable& cuda_device_table(const std::vector<std::string>& module_folders) {
  const DcpctlDeviceTable& table = open_module(module_folders, kCudaModule);
  if (device_count(table) == 0) fail(ProblemId::device_missing, {}, "no GPU");
  return table;
}

}  // namespace dcp
