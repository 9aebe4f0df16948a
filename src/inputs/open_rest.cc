#include "inputs/open_rest.h"

#include <utility>
#include <vector>

namespace dcp {

OpenedCatalog open_rest(const std::string& folder, size_t count, const OpenOptions& options, const OpenWithout& open) {
  std::set<std::string> without;
  std::vector<Problem> damage;
  for (;;) {
    try {
      OpenedCatalog opened = open(without);
      opened.findings.insert(opened.findings.begin(), damage.begin(), damage.end());
      return opened;
    } catch (const Error& e) {
      const std::string& path = e.problem().place.path;
      const bool is_below = path.size() > folder.size() + 1 && path.starts_with(folder + "/");
      if (!options.show_rest || !is_below || !without.insert(path.substr(folder.size() + 1)).second) throw;
      damage.push_back(e.problem());
      damage.back().severity = Severity::kDamage;
      if (without.size() >= count) throw Error(e.problem());
    }
  }
}

}  // namespace dcp
