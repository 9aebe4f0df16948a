#include "catalog/select.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "catalog/rename.h"

namespace dcp {
namespace {

constexpr std::string_view kNonModel[] = {
    "optim", "optimizer", "optimizers", "optimizer_state", "lr_scheduler", "lr_schedulers", "scheduler", "schedulers", "scaler",
    "train_state", "dataloader", "dataloaders", "rng", "rng_state", "rng_states", "random_states", "ema_optimizer", "epoch", "step",
    "global_step", "iteration", "rerun_state_machine_state", "loops", "callbacks", "hparams",
    // What the tutorials of torch and Lightning's .ckpt files call the same.
    "optimizer_states", "optimizer_state_dict", "optim_state_dict", "scheduler_state_dict", "lr_scheduler_state_dict", "scaler_state_dict",
    "hyper_parameters", "hparams_name", "pytorch-lightning_version"};
constexpr std::string_view kModelRoots[] = {"model", "state_dict", "module", "model_state_dict"};

// Lightning numbers what it has several of: optimizer_0.
bool names_other_state(std::string_view name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits < name.size() && digits > 1 && name[digits - 1] == '_') name = name.substr(0, digits - 1);
  return std::ranges::find(kNonModel, name) != std::end(kNonModel);
}

// The component that says that the path is no model's; path.size(): none does.
size_t non_model_at(std::span<const PathPart> path) {
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i].position >= 0) continue;
    if (path[i].name == "model" || path[i].name == "model_state_dict") break;
    if (names_other_state(path[i].name)) return i;
  }
  return path.size();
}

bool matches(const KeyRule& rule, const std::string& key) {
  if (rule.kind == KeyRule::Kind::kKey) return rule.text == key;
  return glob_matches(rule.text, key);
}

// Sets used[r] for each rule that matches.
bool kept_by(const std::vector<KeyRule>& rules, const std::string& key, std::vector<bool>& used) {
  bool keep = rules.empty() || rules.front().kind == KeyRule::Kind::kExclude;
  for (size_t r = 0; r < rules.size(); ++r) {
    if (!matches(rules[r], key)) continue;
    used[r] = true;
    keep = rules[r].kind != KeyRule::Kind::kExclude;
  }
  return keep;
}

void add_source_path(const Catalog& c, Entry& e, Selection& s) {
  e.key = source_key(c, e);
  e.first = static_cast<uint32_t>(s.parts.size());
  const std::vector<PathPart> path = source_path(c, e);
  e.count = static_cast<uint32_t>(path.size());
  s.parts.insert(s.parts.end(), path.begin(), path.end());
}

void strip(Selection& s, Entry& e, uint32_t components) {
  if (components == 0) return;
  e.first += components;
  e.count -= components;
  e.key = s.texts.emplace_back(joined(s.path(e)));
}

// How many leading components spell `root`; 0: the path does not lie under it. The last component is the leaf and never a root.
uint32_t under_root(std::span<const PathPart> path, const std::string& root) {
  for (uint32_t n = 1; n < path.size(); ++n)
    if (joined(path.first(n)) == root) return n;
  return 0;
}

// Components that all paths share, ending at the deepest one named `model`, `state_dict` or `module`. The deepest, because a trainer's
// {"state_dict": {"model": {...}}} is stripped to what load_state_dict takes.
std::span<const PathPart> common_model_root(const Selection& s) {
  std::span<const PathPart> common = s.path(s.entries.front());
  common = common.first(common.size() - 1);
  for (const Entry& e : s.entries) {
    const std::span<const PathPart> path = s.path(e);
    size_t n = 0;
    while (n < common.size() && n + 1 < path.size() && common[n] == path[n]) ++n;
    common = common.first(n);
  }
  while (!common.empty() && (common.back().position >= 0 || std::ranges::find(kModelRoots, common.back().name) == std::end(kModelRoots)))
    common = common.first(common.size() - 1);
  return common;
}

}  // namespace

bool is_more_than_model(const Catalog& catalog, const Selection& s) {
  if (s.entries.empty()) return false;
  const auto is_other = [&](const Entry& e) { return is_non_model(s.path(e), catalog.has_planner_data); };
  return std::ranges::any_of(s.entries, is_other) || !common_model_root(s).empty();
}

namespace {

// Where some paths lie under a `model` and others do not, so that nothing can be stripped: one of the others.
std::string beside_model(const Selection& s) {
  const auto is_root = [](const PathPart& p) { return p.position < 0 && std::ranges::find(kModelRoots, p.name) != std::end(kModelRoots); };
  const auto has_root = [&](const Entry& e) { return std::ranges::any_of(s.path(e).first(s.path(e).size() - 1), is_root); };
  if (std::ranges::none_of(s.entries, has_root)) return {};
  const auto other = std::ranges::find_if_not(s.entries, has_root);
  return std::string(other == s.entries.end() ? s.entries.back().key : other->key);
}

void keep_under(const Catalog& catalog, const std::string& root, Selection& s) {
  std::vector<Entry> kept;
  for (Entry e : s.entries) {
    const uint32_t n = under_root(s.path(e), root);
    strip(s, e, n);
    if (n > 0) kept.push_back(e);
  }
  if (kept.empty()) fail(ProblemId::root_missing, {.path = catalog.path}, root);
  s.root = root;
  s.dropped_outside_root = s.entries.size() - kept.size();
  s.entries = std::move(kept);
}

void keep_model(const Catalog& catalog, bool keep_root, Selection& s) {
  std::set<std::string> tops;
  const size_t before = s.entries.size();
  std::erase_if(s.entries, [&](const Entry& e) {
    const std::span<const PathPart> path = s.path(e);
    if (!is_non_model(path, catalog.has_planner_data)) return false;
    const size_t length = catalog.has_planner_data ? non_model_at(path) + 1 : 0;
    tops.insert(catalog.has_planner_data ? joined(path.first(length)) : std::string(path[0].name.substr(0, path[0].name.find('.'))));
    return true;
  });
  s.dropped_non_model = before - s.entries.size();
  s.dropped_top.assign(tops.begin(), tops.end());
  if (s.entries.empty() || keep_root) return;
  const std::span<const PathPart> root = common_model_root(s);
  if (root.empty()) s.unstripped = beside_model(s);
  else s.stripped_root = joined(root);
  const auto components = static_cast<uint32_t>(root.size());
  for (Entry& e : s.entries) strip(s, e, components);
}

void put_under(const std::string& root, Selection& s) {
  std::vector<PathPart> above;
  const std::string_view text = s.texts.emplace_back(root);
  for (size_t at = 0; at <= text.size(); at += above.back().name.size() + 1) above.push_back({text.substr(at, text.find('.', at) - at)});
  if (std::ranges::find(above, "", &PathPart::name) != above.end()) fail(ProblemId::usage, {}, "--add-root '" + root + "'", "names with a dot between, such as app.model");
  for (Entry& e : s.entries) {
    const auto first = static_cast<uint32_t>(s.parts.size());
    s.parts.insert(s.parts.end(), above.begin(), above.end());
    for (uint32_t i = 0; i < e.count; ++i) s.parts.push_back(PathPart(s.parts[e.first + i]));
    e.first = first;
    e.count += static_cast<uint32_t>(above.size());
    e.key = s.texts.emplace_back(root + "." + std::string(e.key));
  }
}

void refuse_collisions(const Catalog& catalog, const Selection& s) {
  std::unordered_map<std::string_view, const Entry*> names;
  for (const Entry& e : s.entries) {
    const auto [it, fresh] = names.try_emplace(e.key, &e);
    if (fresh) continue;
    fail(ProblemId::keys_collide, {.path = catalog.path, .tensor = std::string(source_key(catalog, e)), .object = e.is_blob()},
         "'" + std::string(e.key) + "', which is also the name of '" + std::string(source_key(catalog, *it->second)) + "'");
  }
}

}  // namespace

bool is_non_model(std::span<const PathPart> path, bool has_planner_data) {
  if (!has_planner_data) return names_other_state(path[0].name.substr(0, path[0].name.find('.')));
  return non_model_at(path) < path.size();
}

bool glob_matches(const std::string& glob, std::string_view key) { return fnmatch(glob.c_str(), std::string(key).c_str(), 0) == 0; }

std::string_view source_key(const Catalog& c, const Entry& e) {
  return e.is_blob() ? c.key(c.blobs[e.blob()]) : c.key(c.tensors[e.tensor()]);
}

std::vector<PathPart> source_path(const Catalog& c, const Entry& e) {
  const PathRange range = e.is_blob() ? c.blobs[e.blob()].path : c.tensors[e.tensor()].path;
  if (range.count == 0) return {{source_key(c, e)}};
  std::vector<PathPart> path;
  for (uint32_t i = range.first; i < range.first + range.count; ++i) {
    const PathElement p = c.path_elements[i];
    path.push_back(p.is_position() ? PathPart{{}, static_cast<int64_t>(p.list_position())} : PathPart{c.strings[p.name_id()], -1, p.is_integer()});
  }
  return path;
}

std::string joined(std::span<const PathPart> path) {
  std::string text;
  for (size_t i = 0; i < path.size(); ++i) {
    if (i > 0) text += '.';
    text += path[i].position >= 0 ? std::to_string(path[i].position) : std::string(path[i].name);
  }
  return text;
}

Selection select_keys(const Catalog& catalog, const SelectOptions& options) {
  Selection s;
  // Keys are the first strings that a catalog interns; what follows is other text.
  const auto is_key = [&](const std::string& text) { return catalog.strings.find(text).value_or(kNone) < catalog.tensors.size() + catalog.blobs.size(); };
  for (const KeyRule& r : options.rules)
    if (r.kind == KeyRule::Kind::kKey && !is_key(r.text)) fail(ProblemId::key_missing, {.path = catalog.path}, r.text);
  std::vector<bool> used(options.rules.size());
  for (int64_t id : catalog.order) {
    Entry e{.id = id, .key = {}};
    if (!kept_by(options.rules, std::string(source_key(catalog, e)), used)) {
      ++s.dropped_by_rules;
    } else if (options.tensors_only && e.is_blob()) {
      ++s.dropped_blobs;
    } else {
      add_source_path(catalog, e, s);
      s.entries.push_back(e);
    }
  }
  for (size_t r = 0; r < used.size(); ++r)
    if (!used[r]) s.idle.push_back((options.rules[r].kind == KeyRule::Kind::kExclude ? "--exclude " : "--include ") + options.rules[r].text);
  // The root first: what --model-only strips may be a part of it.
  if (!options.root.empty() && !s.entries.empty()) keep_under(catalog, options.root, s);
  if (options.model_only && !s.entries.empty()) keep_model(catalog, options.keep_root, s);
  if (s.entries.empty() && !catalog.order.empty()) fail(ProblemId::nothing_selected, {.path = catalog.path});
  if (!options.add_root.empty()) put_under(options.add_root, s);
  rename_keys(options, s);
  if (s.renamed > 0) refuse_collisions(catalog, s);
  choose_dtypes(catalog, options.dtypes, s);
  return s;
}

}  // namespace dcp
