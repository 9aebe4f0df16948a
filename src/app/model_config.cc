#include "app/model_config.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>

#include "base/file_names.h"
#include "maps/apply_map.h"
#include "maps/builtin.h"
#include "maps/config.h"
#include "maps/published.h"
#include "select/globs.h"

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
  if (const auto map = maps::published_map(config.model_type(), Limits())) return maps::kept_in_float32(*map, as);
  return maps::kept_of_types(config.model_types(), as);
}

maps::KeepsFloat32 kept_by_family(const std::string& named, const std::vector<std::string>& folders, DType as, Store& store) {
  try {
    return kept_by_family(model_config(named, folders, store), as);
  } catch (const Error& e) {
    if (!named.empty() || class_of(e.problem().id) != ProblemClass::kInput) throw;
    return {};
  }
}

namespace {

std::optional<maps::Config> config_in(const std::string& folder, Store& store) {
  if (!has_config(folder, store)) return {};
  try {
    return open_config(folder + "/config.json", store);
  } catch (const Error&) {  // another program's
    return {};
  }
}

std::vector<maps::MapSource> plain_tensors(const Catalog& catalog, const Selection& selection) {
  std::vector<std::string_view> keys;
  for (const Entry& e : selection.entries) keys.push_back(e.key);
  const KnownKeys known(std::move(keys));
  std::vector<maps::MapSource> sources;
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) continue;
    const Tensor& t = catalog.tensors[e.tensor()];
    const bool is_plain = t.dtype_known && is_cast_target(t.dtype) && !known.has_below(std::string(e.key));
    if (is_plain) sources.push_back({.key = e.key, .dtype = t.dtype, .shape = catalog.shape(t)});
  }
  return sources;
}

std::vector<Problem> shapes_differing(const maps::Config& config, const std::vector<maps::MapSource>& sources) {
  std::vector<Problem> found = maps::differences(config, sources);
  for (Problem& p : found) {
    p.severity = Severity::kDamage;
    if (p.hint.empty()) p.hint = "the tensor is of another model than " + config.path() + ", or a part of what it was";
  }
  return found;
}

// One of the files of a model has a part of it.
bool is_whole_model(const Catalog& catalog) {
  return catalog.traits().tensors_only && (!catalog.single_file || split_path(catalog.path).name == "model.safetensors");
}

}  // namespace

std::vector<Problem> differences_from_config(const Catalog& catalog, bool is_whole, Store& store) {
  const std::optional<maps::Config> config = config_in(catalog.folder, store);
  if (!config) return {};
  const Selection all = select_keys(catalog, {});
  const std::vector<maps::MapSource> sources = plain_tensors(catalog, all);
  std::vector<Problem> found = shapes_differing(*config, sources);
  if (found.empty() && !catalog.traits().tensors_only) {
    try {
      const Selection model = select_keys(catalog, {.model_only = true});
      found = shapes_differing(*config, plain_tensors(catalog, model));
    } catch (const Error&) {  // no model, or several
    }
  }
  if (!catalog.traits().tensors_only) return found;
  std::vector<std::string_view> keys;
  for (const maps::MapSource& s : sources) keys.push_back(s.key);
  std::ranges::move(maps::unused(*config, keys), std::back_inserter(found));
  if (is_whole && sources.size() == all.entries.size() && is_whole_model(catalog))
    if (auto p = maps::lacking(*config, sources)) found.push_back(std::move(*p));
  return found;
}

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
