// Finds parameters in an optimizer's groups for which it has no state: they were frozen or had no gradient yet, or their state was lost.
#pragma once

#include <vector>

#include "base/limits.h"
#include "base/problem.h"
#include "catalog/catalog.h"
#include "catalog/data_files.h"

namespace dcp {

// A note for each optimizer with such parameters. Its parameters are those of P.param_groups.N.params, or the <fqn> of
// P.param_groups.<fqn>.lr, and their state is in P.state. Lists of parameters that cannot be read are skipped: other findings report them.
std::vector<Problem> find_idle_parameters(DataFiles& files, const Catalog& catalog, const Limits& limits);

}  // namespace dcp
