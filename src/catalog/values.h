// Values that are small enough to be told in a line: numbers, texts and short containers that a trainer keeps beside its model.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/limits.h"
#include "catalog/catalog.h"
#include "catalog/data_files.h"

namespace dcp {

// By key of the catalog (tensor t as t, blob b as ~b): "1000", "(0.9, 0.999)", "'cosine'". Of byte items and of tensors without dims, as far
// as their items are small, and of the first few hundred. One that cannot be read has no value here: what is wrong with it is for others
// to say.
std::map<KeyRef, std::string> small_values(DataFiles& files, const Catalog& catalog, const Limits& limits);

}  // namespace dcp
