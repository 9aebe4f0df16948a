// How many files may be open at once: the process's limit, raised first as far as permitted.
#pragma once

#include <cstddef>

namespace dcp {

struct OpenFileShares {
  size_t inputs = 0, outputs = 0;
};
OpenFileShares open_file_shares();

}  // namespace dcp
