// Whether a model has the shapes that the config.json beside it gives.
#pragma once

#include <vector>

#include "base/problem.h"
#include "base/store.h"
#include "catalog/catalog.h"

namespace dcp {

// What transformers would refuse, as damage: the first difference. Nothing without a config.json, or with one that is not a model's. Packed
// weights have shapes of their own.
std::vector<Problem> differences_from_config(const Catalog& catalog, Store& store);

}  // namespace dcp
