// Parameters that an optimizer is to train and keeps nothing of: they were frozen or had no gradient yet, or their state was lost.
#pragma once

#include <vector>

#include "base/limits.h"
#include "base/problem.h"
#include "catalog/catalog.h"
#include "catalog/data_files.h"

namespace dcp {

// A note for each optimizer that has some. Its parameters are those of P.param_groups.N.params, or the <fqn> of P.param_groups.<fqn>.lr; P.state
// has what it keeps of them. Lists of parameters that cannot be read are passed over: other findings say why.
std::vector<Problem> find_idle_parameters(DataFiles& files, const Catalog& catalog, const Limits& limits);

}  // namespace dcp
