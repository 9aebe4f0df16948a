// An output must not replace its source or lie inside it.
#pragma once

#include <string>

#include "catalog/catalog.h"

namespace dcp {

// Throws output_in_source.
void refuse_source(const std::string& output, const Catalog& catalog);

}  // namespace dcp
