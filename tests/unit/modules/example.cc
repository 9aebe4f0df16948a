// The smallest module.
#include "modules/table.h"

extern "C" __attribute__((visibility("default"))) const DcpctlModuleHeader* dcpctl_example() {
  static const DcpctlModuleHeader header{.bytes = sizeof(DcpctlModuleHeader), .abi = 7, .built_with = "the test"};
  return &header;
}
