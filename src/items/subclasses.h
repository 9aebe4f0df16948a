// Tensors of classes of their own: 8-bit optimizer states, torchao's wrappers. `.metadata` does not tell; their pickles do.
#pragma once

#include <map>
#include <string>

#include "base/limits.h"
#include "catalog/data_files.h"

namespace dcp {

// By tensor: "torchao.optim.subclass_8bit.OptimState8bit". Of a DCP checkpoint only items are read that are not as long as those of plain
// tensors, as far as a sample tells; an item that cannot be read is left out: other findings report it.
std::map<TensorId, std::string> subclasses(DataFiles& files, const Limits& limits);

}  // namespace dcp
