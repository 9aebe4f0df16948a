// Releases of torch as numbers: 213 is 2.13.
#pragma once

#include <string>

namespace dcp {

inline std::string torch_release(unsigned version) { return std::to_string(version / 100) + "." + std::to_string(version % 100); }

}  // namespace dcp
