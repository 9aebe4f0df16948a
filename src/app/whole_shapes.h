// How large the tensors are that ranks have parts of, where something says it: then it shows which of them each rank has whole.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/source.h"
#include "plan/expect.h"
#include "select/select.h"

namespace dcp {

// By the keys of the catalog. config.json is that of `configs` which knows the key first; those that are not there are passed over.
WholeShapes shapes_by_config(const Catalog& catalog, const std::vector<std::string>& configs, Store& store);
// What a reference has under the final names.
void add_shapes(const Catalog& catalog, const SelectOptions& select, const std::vector<Signature>& reference, WholeShapes& shapes);

}  // namespace dcp
