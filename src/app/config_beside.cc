#include "app/config_beside.h"

#include <optional>

#include "app/mapped.h"
#include "maps/apply_map.h"
#include "maps/config.h"
#include "maps/published.h"
#include "select/globs.h"
#include "select/select.h"

namespace dcp {
namespace {

std::optional<maps::Config> config_in(const std::string& folder, Store& store) {
  const std::string path = folder + "/config.json";
  const auto facts = store.facts(path);
  if (!facts || facts->kind != FileKind::kRegular) return {};
  try {
    return open_config(path, store);
  } catch (const Error&) {  // another program's
    return {};
  }
}

std::optional<Problem> difference(const maps::Config& config, const Catalog& catalog, const Selection& selection) {
  std::vector<std::string_view> keys;
  for (const Entry& e : selection.entries) keys.push_back(e.key);
  const KnownKeys known(std::move(keys));
  std::vector<maps::MapSource> sources;
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) continue;
    const Tensor& t = catalog.tensors[e.tensor()];
    const Dims dims = catalog.dims(t);
    const bool is_plain = t.dtype_known && is_cast_target(t.dtype) && !known.has_below(std::string(e.key));
    if (is_plain) sources.push_back({.key = e.key, .dtype = t.dtype, .shape = {dims.begin(), dims.end()}});
  }
  try {
    maps::check_against(config, sources);
  } catch (const Error& e) {
    return e.problem();
  }
  return {};
}

}  // namespace

std::vector<Problem> differences_from_config(const Catalog& catalog, Store& store) {
  const std::optional<maps::Config> config = config_in(catalog.folder, store);
  if (!config) return {};
  std::optional<Problem> found = difference(*config, catalog, select_keys(catalog, {}));
  if (!found && !catalog.traits().tensors_only) {
    try {
      found = difference(*config, catalog, select_keys(catalog, {.model_only = true}));
    } catch (const Error&) {  // no model, or several
    }
  }
  if (!found) return {};
  found->severity = Severity::kDamage;
  return {std::move(*found)};
}

}  // namespace dcp
