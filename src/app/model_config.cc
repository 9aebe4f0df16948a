#include "app/model_config.h"

#include "base/file_names.h"
#include "maps/builtin.h"

namespace dcp {

maps::Config open_config(const std::string& path, Store& store) {
  const Limits limits;
  return maps::Config::read(as_text(read_file(store, path, limits.config_bytes)), path, limits);
}

bool has_config(const std::string& folder, Store& store) {
  const auto facts = folder.empty() ? std::nullopt : store.facts(folder + "/config.json");
  return facts && facts->kind == FileKind::kRegular;
}

maps::Config model_config(const std::string& named, const std::vector<std::string>& folders, Store& store) {
  if (!named.empty()) return open_config(named, store);
  for (const std::string& folder : folders)
    if (has_config(folder, store)) return open_config(without_trailing_slashes(folder) + "/config.json", store);
  return {};
}

std::string known_model_type(const maps::Config& config) {
  for (const std::string& type : {config.model_type(), config.within("text_config").model_type()})
    if (!maps::class_of(type, Limits()).empty()) return type;
  return {};
}

maps::KeepsFloat32 kept_by_family(const maps::Config& config, DType as) {
  const auto map = maps::published_map(known_model_type(config), Limits());
  return map ? maps::kept_in_float32(*map, as) : maps::KeepsFloat32();
}

maps::KeepsFloat32 kept_by_family(const std::string& named, const std::vector<std::string>& folders, DType as, Store& store) {
  try {
    return kept_by_family(model_config(named, folders, store), as);
  } catch (const Error& e) {
    if (!named.empty() || class_of(e.problem().id) != ProblemClass::kInput) throw;
    return {};
  }
}

}  // namespace dcp
