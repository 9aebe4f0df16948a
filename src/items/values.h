// Values that fit in one line: numbers, texts and short containers that a trainer keeps beside its model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "catalog/catalog.h"
#include "catalog/data_files.h"

namespace dcp {

// Of `keys`, in their order, byte items and tensors without dims whose items are small, at most `most` of each.
std::vector<KeyRef> with_small_values(const Catalog& catalog, std::span<const KeyRef> keys, size_t most);

// By key of the catalog: "1000", "(0.9, 0.999)", "'cosine'". A value that cannot be read is left out: other findings report it.
std::map<KeyRef, std::string> small_values(DataFiles& files, const Catalog& catalog, const Limits& limits, std::span<const KeyRef> keys);

// Finds tensors of subclasses, such as 8-bit optimizer states and torchao's wrappers. `.metadata` does not mention the class; their pickles
// do.

// The class of each such tensor: "torchao.optim.subclass_8bit.OptimState8bit". In a DCP checkpoint, only items are read whose length
// differs from a plain tensor's, judging by a sample. An item that cannot be read is left out: other findings report it.
std::map<TensorId, std::string> subclasses(DataFiles& files, const Limits& limits);

// What both are about to read, for DataFiles::keep. `keys` are those with small values.
std::vector<Item> parts_with_values(const Catalog& catalog, std::span<const KeyRef> keys);

}  // namespace dcp
