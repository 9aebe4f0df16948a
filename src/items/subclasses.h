// Finds tensors of subclasses, such as 8-bit optimizer states and torchao's wrappers. `.metadata` does not mention the class; their pickles
// do.
#pragma once

#include <map>
#include <string>

#include "base/limits.h"
#include "catalog/data_files.h"

namespace dcp {

// The class of each such tensor: "torchao.optim.subclass_8bit.OptimState8bit". In a DCP checkpoint, only items are read whose length
// differs from a plain tensor's, judging by a sample. An item that cannot be read is left out: other findings report it.
std::map<TensorId, std::string> subclasses(DataFiles& files, const Limits& limits);

}  // namespace dcp
