// Numbered safetensors files of which one is missing.
#pragma once

#include <string>
#include <vector>

#include "base/problem.h"

namespace dcp {

// A number that no file has. Of MMMMM files of one process each holds tensors, so one that is missing takes them along: damage. Of files
// that ranks wrote, a rank may have had nothing to write (another saved its replicas), but nothing in the others shows it: a warning. What
// a missing one held of tensors that others hold, too, is a hole, or it was at the end of a tensor: there only a rank without elements,
// which torch writes down with its offsets, shows how large the tensor is. So nothing shows that the last rank is there.
void find_gaps(const std::vector<std::string>& names, const std::string& path, std::vector<Problem>& findings);

}  // namespace dcp
