// A fake device: host memory as the source of copies, threads as streams, mlock as pinning. It measures the cost of host copies, and runs
// all of staging/ on a machine without a GPU.
#pragma once

#include "modules/device.h"

namespace dcp {

// One device; static.
const DcpctlDeviceTable& cpu_device_table();

}  // namespace dcp
