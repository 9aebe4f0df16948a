#include "catalog/select.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

namespace dcp {
namespace {

constexpr std::string_view kNonModel[] = {
    "optim", "optimizer", "optimizers", "optimizer_state", "lr_scheduler", "lr_schedulers", "scheduler", "schedulers", "scaler",
    "train_state", "dataloader", "dataloaders", "rng", "rng_state", "rng_states", "random_states", "ema_optimizer", "epoch", "step",
    "global_step", "iteration", "rerun_state_machine_state", "loops", "callbacks", "hparams"};
constexpr std::string_view kModelRoots[] = {"model", "state_dict", "module"};

bool matches(const KeyRule& rule, const std::string& key) {
  if (rule.kind == KeyRule::Kind::kKey) return rule.text == key;
  return fnmatch(rule.text.c_str(), key.c_str(), 0) == 0;
}

bool kept_by(const std::vector<KeyRule>& rules, const std::string& key) {
  bool keep = rules.empty() || rules.front().kind == KeyRule::Kind::kExclude;
  for (const KeyRule& r : rules)
    if (matches(r, key)) keep = r.kind != KeyRule::Kind::kExclude;
  return keep;
}

std::vector<PathPart> source_path(const Catalog& c, const Entry& e) {
  const PathRange range = e.is_blob() ? c.blobs[e.blob()].path : c.tensors[e.tensor()].path;
  if (range.count == 0) return {{source_key(c, e)}};
  std::vector<PathPart> path;
  for (uint32_t i = range.first; i < range.first + range.count; ++i) {
    const PathElement p = c.path_elements[i];
    path.push_back(p.is_position() ? PathPart{{}, static_cast<int64_t>(p.list_position())} : PathPart{c.strings[p.name_id()]});
  }
  return path;
}

std::string joined(const std::vector<PathPart>& path, size_t first, size_t last) {
  std::string text;
  for (size_t i = first; i < last; ++i) {
    if (i > first) text += '.';
    text += path[i].position >= 0 ? std::to_string(path[i].position) : std::string(path[i].name);
  }
  return text;
}

// How many leading components spell `root`; 0: the path does not lie under it. The last component is the leaf and never a root.
uint32_t under_root(const std::vector<PathPart>& path, const std::string& root) {
  for (uint32_t n = 1; n < path.size(); ++n)
    if (joined(path, 0, n) == root) return n;
  return 0;
}

// Components that all paths share, ending at the deepest one named `model`, `state_dict` or `module`. The deepest, because a trainer's
// {"state_dict": {"model": {...}}} is stripped to what load_state_dict takes.
std::vector<PathPart> common_model_root(const Catalog& catalog, const std::vector<Entry>& entries) {
  std::vector<PathPart> common = source_path(catalog, entries.front());
  common.pop_back();
  for (const Entry& e : entries) {
    const std::vector<PathPart> path = source_path(catalog, e);
    size_t n = 0;
    while (n < common.size() && n + 1 < path.size() && common[n] == path[n]) ++n;
    common.resize(n);
  }
  while (!common.empty() && (common.back().position >= 0 || std::ranges::find(kModelRoots, common.back().name) == std::end(kModelRoots)))
    common.pop_back();
  return common;
}

void keep_under(const Catalog& catalog, const std::string& root, Selection& s) {
  std::vector<Entry> kept;
  for (Entry e : s.entries) {
    e.skip = under_root(source_path(catalog, e), root);
    if (e.skip > 0) kept.push_back(e);
  }
  if (kept.empty()) fail(ProblemId::root_missing, {.path = catalog.path}, root);
  s.dropped_outside_root = s.entries.size() - kept.size();
  s.entries = std::move(kept);
  s.stripped_root = root;
}

void keep_model(const Catalog& catalog, bool keep_root, Selection& s) {
  std::set<std::string> tops;
  const size_t before = s.entries.size();
  std::erase_if(s.entries, [&](const Entry& e) {
    const std::vector<PathPart> path = source_path(catalog, e);
    if (!is_non_model(path, catalog.has_planner_data)) return false;
    tops.insert(catalog.has_planner_data ? joined(path, 0, 1) : std::string(path[0].name.substr(0, path[0].name.find('.'))));
    return true;
  });
  s.dropped_non_model = before - s.entries.size();
  s.dropped_top.assign(tops.begin(), tops.end());
  if (s.entries.empty() || keep_root) return;
  const std::vector<PathPart> root = common_model_root(catalog, s.entries);
  for (Entry& e : s.entries) e.skip = static_cast<uint32_t>(root.size());
  s.stripped_root = joined(root, 0, root.size());
}

}  // namespace

bool is_non_model(const std::vector<PathPart>& path, bool has_planner_data) {
  const auto named = [](std::string_view name) { return std::ranges::find(kNonModel, name) != std::end(kNonModel); };
  if (!has_planner_data) return named(path[0].name.substr(0, path[0].name.find('.')));
  for (const PathPart& p : path) {
    if (p.position >= 0) continue;
    if (p.name == "model") return false;
    if (named(p.name)) return true;
  }
  return false;
}

std::string_view source_key(const Catalog& c, const Entry& e) {
  return e.is_blob() ? c.key(c.blobs[e.blob()]) : c.key(c.tensors[e.tensor()]);
}

std::vector<PathPart> final_path(const Catalog& catalog, const Entry& entry) {
  std::vector<PathPart> path = source_path(catalog, entry);
  path.erase(path.begin(), path.begin() + entry.skip);
  return path;
}

std::string final_key(const Catalog& catalog, const Entry& entry) {
  if (entry.skip == 0) return std::string(source_key(catalog, entry));
  const std::vector<PathPart> path = source_path(catalog, entry);
  return joined(path, entry.skip, path.size());
}

Selection select_keys(const Catalog& catalog, const SelectOptions& options) {
  Selection s;
  for (const KeyRule& r : options.rules)
    if (r.kind == KeyRule::Kind::kKey && !catalog.strings.find(r.text)) fail(ProblemId::key_missing, {.path = catalog.path}, r.text);
  for (int64_t id : catalog.order) {
    const Entry e{.id = id};
    if (!kept_by(options.rules, std::string(source_key(catalog, e)))) ++s.dropped_by_rules;
    else if (options.tensors_only && e.is_blob()) ++s.dropped_blobs;
    else s.entries.push_back(e);
  }
  if (options.model_only && !s.entries.empty()) keep_model(catalog, options.keep_root, s);
  if (!options.root.empty() && !s.entries.empty()) keep_under(catalog, options.root, s);
  if (s.entries.empty() && !catalog.order.empty()) fail(ProblemId::nothing_selected, {.path = catalog.path});
  return s;
}

}  // namespace dcp
