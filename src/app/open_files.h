// How many files may be open at once, by the process's limit.
#pragma once

#include <cstddef>

namespace dcp {

struct OpenFileShares {
  size_t inputs = 0, outputs = 0;
};
OpenFileShares open_file_shares();

// Raises the process's soft limit as far as open_file_shares() has a use for. Left to the program: a host of the library has a limit of its own.
void raise_open_file_limit();

}  // namespace dcp
