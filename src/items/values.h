// Values that fit in one line: numbers, texts and short containers that a trainer keeps beside its model.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/limits.h"
#include "catalog/catalog.h"
#include "catalog/data_files.h"

namespace dcp {

// By key of the catalog: "1000", "(0.9, 0.999)", "'cosine'". Covers byte items and tensors without dims whose items are small, and only the
// first few hundred. A value that cannot be read is left out: other findings report it.
std::map<KeyRef, std::string> small_values(DataFiles& files, const Catalog& catalog, const Limits& limits);

}  // namespace dcp
