#include "app/whole_shapes.h"

#include <deque>
#include <map>

#include "app/mapped.h"
#include "maps/config.h"
#include "maps/published.h"

namespace dcp {

WholeShapes shapes_by_config(const Catalog& catalog, const std::vector<std::string>& configs, Store& store) {
  std::deque<maps::ConfigShapes> known;
  for (const std::string& path : configs) {
    const auto facts = store.facts(path);
    if (!facts || facts->kind != FileKind::kRegular) continue;
    const maps::Config config = open_config(path, store);
    known.emplace_back(config);
    if (config.has("text_config")) known.emplace_back(config.within("text_config"));
  }
  WholeShapes shapes;
  for (const Tensor& t : catalog.tensors)
    for (const maps::ConfigShapes& config : known) {
      // The model may be below a root.
      for (std::string_view name = catalog.key(t); !shapes.contains(catalog.key(t));) {
        if (auto shape = config.of(name)) shapes.emplace(catalog.key(t), std::move(*shape));
        const size_t dot = name.find('.');
        if (dot == name.npos) break;
        name.remove_prefix(dot + 1);
      }
    }
  return shapes;
}

void add_shapes(const Catalog& catalog, const SelectOptions& select, const std::vector<Signature>& reference, WholeShapes& shapes) {
  std::map<std::string_view, const Signature*> by_name;
  for (const Signature& s : reference) by_name.emplace(s.key, &s);
  SelectOptions options = select;
  options.dtypes = {};
  const Selection selection = select_keys(catalog, options);
  for (const Entry& e : selection.entries) {
    const auto found = by_name.find(escaped(e.key));
    if (!e.is_blob() && found != by_name.end()) shapes.insert_or_assign(std::string(catalog.key(e.ref)), found->second->shape);
  }
}

}  // namespace dcp
