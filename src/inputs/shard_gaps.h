// Finds gaps in numbered safetensors files.
#pragma once

#include <string>
#include <vector>

#include "base/problem.h"

namespace dcp {

// Finds a number that no file has. If one process wrote the files, each holds tensors, so a missing file is damage. If ranks wrote them,
// the missing rank may have had nothing to write (another one saved its replicas), but nothing in the other files shows that, so it is a
// warning. If it held a part of a tensor, that part is a hole, unless it was the end of the tensor: the tensor's true size is only known if
// some rank wrote an empty shard at the end. So a missing last rank can go unnoticed.
void find_gaps(const std::vector<std::string>& names, const std::string& path, std::vector<Problem>& findings);

}  // namespace dcp
