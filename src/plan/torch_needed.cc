#include "plan/torch_needed.h"

#include <algorithm>
#include <set>

#include "format/torch_release.h"
#include "plan/plan.h"
#include "select/select.h"

namespace dcp {

TorchNeeded torch_for(const Catalog& catalog, const Selection& selection, const TorchTarget& target) {
  TorchNeeded needed{.version = target.version, .raised_by = {}};
  std::set<DType> met;
  for (const Entry& e : selection.entries) {
    if (e.is_blob() || !met.insert(e.dtype).second) continue;
    const DTypeFacts& dtype = facts_of(e.dtype);
    if (dtype.since_torch <= target.version) continue;
    if (target.requested)
      fail(ProblemId::dtype_needs_torch, {.path = catalog.path, .tensor = std::string(catalog.key(e.ref))}, std::string(dtype.name),
           "torch " + torch_release(dtype.since_torch) + " or later");
    needed.version = std::max<unsigned>(needed.version, dtype.since_torch);
    needed.raised_by.push_back({std::string(e.key), std::string(dtype.name) + " came with torch " + torch_release(dtype.since_torch)});
  }
  return needed;
}

}  // namespace dcp
