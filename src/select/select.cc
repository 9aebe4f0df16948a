#include "select/select.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/text.h"
#include "select/globs.h"
#include "select/rename.h"

namespace dcp {
namespace {

std::string_view setting_of(KeyRule::Kind kind) {
  return kind == KeyRule::Kind::kExclude ? "exclude" : kind == KeyRule::Kind::kKey ? "key" : "include";
}

KnownKeys keys_of(const Catalog& catalog) {
  std::vector<std::string_view> keys;
  for (const KeyRef ref : catalog.order) keys.push_back(catalog.key(ref));
  return KnownKeys(std::move(keys));
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
  e.key = c.key(e.ref);
  e.first = static_cast<uint32_t>(s.parts.size());
  const std::vector<PathPart> path = source_path(c, e);
  e.count = static_cast<uint32_t>(path.size());
  s.parts.insert(s.parts.end(), path.begin(), path.end());
}

void strip(Selection& s, Entry& e, uint32_t components) {
  if (components == 0) return;
  const std::string path = joined(s.path(e));
  e.first += components;
  e.count -= components;
  const bool is_numbered = e.key.starts_with(path + "#");  // among the keys of that name (state_dict.h)
  e.key = s.texts.emplace_back(joined(s.path(e)) + std::string(is_numbered ? e.key.substr(path.size()) : ""));
}

// How many leading components spell `root`; 0: the path does not lie under it. The last component is the leaf and never a root.
uint32_t under_root(std::span<const PathPart> path, const std::string& root) {
  std::string_view left = root;
  for (uint32_t n = 1; n < path.size(); ++n) {
    const std::string step = joined(path.subspan(n - 1, 1));
    if (left == step) return n;
    if (!left.starts_with(step + ".")) return 0;
    left.remove_prefix(step.size() + 1);
  }
  return 0;
}

// Without planner data a root is what keys begin with, up to a dot.
bool strip_text(Selection& s, Entry& e, const std::string& root) {
  if (e.key.size() < root.size() + 2 || !e.key.starts_with(root) || e.key[root.size()] != '.') return false;
  e.key.remove_prefix(root.size() + 1);
  e.first = static_cast<uint32_t>(s.parts.size());
  e.count = 1;
  s.parts.push_back({e.key});
  return true;
}

// Lists what exists instead of the first missing component of `root`, and the closest name.
Problem missing_root(const Catalog& catalog, const std::string& root, const Selection& s) {
  size_t depth = 0;  // leading components of `root` that some path has
  std::set<std::string> names;
  for (const Entry& e : s.entries) {
    const std::span<const PathPart> path = s.path(e);
    if (!catalog.has_planner_data && e.key.find('.') != e.key.npos) names.emplace(e.key.substr(0, e.key.find('.')));
    size_t same = 0, at = 0;
    for (; same + 1 < path.size(); ++same) {
      const std::string step = joined(path.subspan(same, 1));
      if (root.compare(at, step.size(), step) != 0 || (at + step.size() < root.size() && root[at + step.size()] != '.')) break;
      at += step.size() + 1;
      if (at > root.size()) break;
    }
    if (same < depth || path.size() < 2) continue;
    if (same > depth) names.clear();
    depth = same;
    names.insert(joined(path.first(std::min(same + 1, path.size() - 1))));  // the last component is never a root
  }
  constexpr size_t kShown = 8;
  std::string text;
  size_t n = 0;
  Closest closest(root);
  for (const std::string& name : names) {
    if (n++ < kShown) text += (text.empty() ? "one of " : ", ") + name;
    closest.offer(name);
  }
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  Problem p = make_problem(ProblemId::root_missing, {.path = catalog.path}, root, text);
  if (!closest.found().empty()) p.hint = "did you mean '" + closest.found() + "'?";
  return p;
}

// What trainers call the same.
constexpr std::array<std::array<std::string_view, 2>, 3> kSame{
    {{"lr", "learning_rate"}, {"step", "global_step"}, {"epoch", "current_epoch"}}};

// The first key that ends with the components that were typed, or with what has that meaning: a trainer's, and then what an optimizer keeps,
// of that an object before a tensor, which only counts alone.
std::vector<std::string_view> ending_with(const Catalog& catalog, const std::string& typed) {
  std::vector<std::string_view> words{typed};
  for (const auto& same : kSame)
    if (std::ranges::find(same, typed) != same.end()) words.insert(words.end(), same.begin(), same.end());
  const TrainingState state = find_training_state(catalog);
  enum Whose { kTrainers, kOptimizers, kSlot };
  std::array<std::string_view, 3> first;
  for (const std::string_view word : words)
    for (const KeyRef ref : catalog.order) {
      const std::string_view key = catalog.key(ref);
      if (!key.ends_with(word) || (key.size() > word.size() && key[key.size() - word.size() - 1] != '.')) continue;
      std::string_view& of = first[!state.is_optimizers(ref) ? kTrainers : ref.is_blob() ? kOptimizers : kSlot];
      if (of.empty()) of = key;
    }
  std::vector<std::string_view> found;
  for (const std::string_view key : first)
    if (!key.empty() && (found.empty() || key != first[kSlot])) found.push_back(key);
  return found;
}

Problem missing_key(const Catalog& catalog, const std::string& key) {
  Closest closest(key), tail(key);
  const auto parts = std::ranges::count(key, '.');
  const auto tail_of = [&](std::string_view other) {  // as many of its last components as were typed
    size_t at = other.size();
    for (auto n = parts; n >= 0 && at != other.npos && at != 0; --n) at = other.rfind('.', at - 1);
    return at == other.npos || at == 0 ? other : other.substr(at + 1);
  };
  for (const KeyRef ref : catalog.order) {
    closest.offer(catalog.key(ref));
    tail.offer(tail_of(catalog.key(ref)));
  }
  Problem p = make_problem(ProblemId::key_missing, {.path = catalog.path}, key);
  std::string meant = closest.found(), below, near;
  if (meant.empty())  // "output.weight" for "model.output.weight"
    for (const std::string_view other : ending_with(catalog, key)) meant += (meant.empty() ? "" : "' or '") + std::string(other);
  const TrainingState state = find_training_state(catalog);
  std::string of_optimizer;                 // what the trainer keeps is meant more often
  for (const KeyRef ref : catalog.order) {  // "layers.0", of which there are only parts
    const std::string_view other = catalog.key(ref);
    if (below.empty() && other.starts_with(key + ".")) below = other;
    if (tail.found().empty() || tail_of(other) != tail.found()) continue;
    std::string& one = state.is_optimizers(ref) ? of_optimizer : near;
    if (one.empty()) one = other;
  }
  if (near.empty()) near = of_optimizer;
  if (meant.empty() && below.empty()) meant = near;
  if (!meant.empty()) p.hint = "did you mean '" + meant + "'?";
  else if (!below.empty()) p.hint = "keys are below it, such as '" + below + "'";
  return p;
}

void lack(const SelectOptions& options, Problem what, Selection& s) {
  if (!options.may_lack) throw Error(std::move(what));
  if (!s.lacks) s.lacks = std::move(what);
}

void keep_under(const Catalog& catalog, const SelectOptions& options, Selection& s) {
  const std::string& root = options.root;
  std::vector<Entry> kept;
  for (Entry e : s.entries) {
    const uint32_t n = under_root(s.path(e), root);
    strip(s, e, n);
    if (n > 0 || (!catalog.has_planner_data && strip_text(s, e, root))) kept.push_back(e);
    else s.dropped_outside_root.add(catalog.key(e.ref));
  }
  if (kept.empty()) return lack(options, missing_root(catalog, root, s), s);
  s.root = root;
  s.entries = std::move(kept);
}

// The entries that the rules keep.
void keep_by_rules(const Catalog& catalog, const SelectOptions& options, Selection& s) {
  using Kind = KeyRule::Kind;
  for (const KeyRule& r : options.rules)
    if (r.kind == Kind::kKey && options.unmatched != Unmatched::kTell && !catalog.has_key(r.text))
      lack(options, missing_key(catalog, r.text), s);
  const std::vector<KeyRule> rules = options.rules.empty() ? options.rules : meant_rules(options.rules, keys_of(catalog));
  std::vector<bool> used(rules.size());
  for (const KeyRef ref : catalog.order) {
    Entry e{.ref = ref, .key = {}};
    if (!kept_by(rules, std::string(catalog.key(e.ref)), used)) {
      s.dropped_by_rules.add(catalog.key(ref));
    } else {
      add_source_path(catalog, e, s);
      s.entries.push_back(e);
    }
  }
  for (const StringId key : catalog.lacking)
    if (kept_by(rules, std::string(catalog.strings[key]), used)) s.lacking.push_back(catalog.strings[key]);
  bool one_excludes = false;
  for (size_t r = 0; r < used.size(); ++r) one_excludes = one_excludes || (used[r] && rules[r].kind == Kind::kExclude);
  for (size_t r = 0; r < used.size(); ++r) {
    if (used[r]) continue;
    const KeyRule& rule = options.rules[r];
    s.unmatched.push_back({std::string(setting_of(rule.kind)), rule.text});
    if (options.unmatched != Unmatched::kRefuse || (rule.kind == Kind::kExclude && one_excludes)) continue;
    refuse_unmatched(catalog, s.unmatched.back(), keys_of(catalog).hint_for(rule.text));
  }
}

// Components of the source's path that the root has stripped.
uint32_t stripped_from(const Catalog& c, const Entry& e) { return static_cast<uint32_t>(source_path(c, e).size()) - e.count; }

void keep_model(const Catalog& catalog, bool keep_root, Selection& s) {
  std::set<int32_t> groups, models;  // places
  std::erase_if(s.entries, [&](const Entry& e) {
    const int32_t place = s.state.place_of(e.ref);
    (place < 0 ? models : groups).insert(place);
    if (place >= 0) s.dropped_non_model.add(catalog.key(e.ref));
    return place >= 0;
  });
  if (std::ranges::any_of(s.entries, [&](const Entry& e) { return s.state.is_doubtful(e.ref); }))
    fail_doubtful(catalog, s.state, Doubt::kWhichKeys);
  for (const int32_t g : groups) s.dropped_top.push_back(s.state.groups[static_cast<size_t>(g)].path);
  if (s.entries.empty() || keep_root) return;
  if (models.size() > 1) {
    std::vector<std::string> paths;
    for (auto m = models.rbegin(); m != models.rend(); ++m) paths.push_back(s.state.models[static_cast<size_t>(~*m)].path);
    fail_several(catalog, paths);
  }
  const KeyGroup& model = s.state.models[static_cast<size_t>(~*models.begin())];
  if (model.components == 0) return;
  for (Entry& e : s.entries) {
    const uint32_t stripped = stripped_from(catalog, e);
    if (stripped >= model.components) continue;
    const std::string root = joined(s.path(e).first(model.components - stripped));
    if (s.stripped_root.empty()) s.stripped_root = root;
    else if (s.stripped_root != root) s.joined_pieces = true;
    strip(s, e, model.components - stripped);
  }
}

void leave_out_objects(Selection& s) {
  std::erase_if(s.entries, [&](const Entry& e) {
    if (e.is_blob()) s.dropped_blobs.push_back(e.blob());
    return e.is_blob();
  });
}

bool is_extra_state(const Catalog& c, const Entry& e) {
  if (e.is_blob()) return false;
  const Tensor& t = c.tensors[e.tensor()];
  const std::string_view key = c.key(t);
  return t.dtype_known && t.dtype == DType::uint8 && key.substr(key.rfind('.') + 1) == kExtraState;
}

void put_under(const std::string& root, Selection& s) {
  std::vector<PathPart> above;
  const std::string_view text = s.texts.emplace_back(root);
  for (const std::string_view name : split(text, '.')) above.push_back({name});
  if (std::ranges::find(above, "", &PathPart::name) != above.end())
    fail(ProblemId::usage, {.setting = "add_root"}, "'" + root + "'", "names with a dot between, such as app.model");
  for (Entry& e : s.entries) {
    const auto first = static_cast<uint32_t>(s.parts.size());
    s.parts.insert(s.parts.end(), above.begin(), above.end());
    for (uint32_t i = 0; i < e.count; ++i) s.parts.push_back(PathPart(s.parts[e.first + i]));
    e.first = first;
    e.count += static_cast<uint32_t>(above.size());
    e.key = s.texts.emplace_back(root + "." + std::string(e.key));
  }
}

}  // namespace

void refuse_collisions(const Catalog& catalog, const std::vector<Entry>& entries, Objects objects) {
  std::unordered_map<std::string_view, const Entry*> names;
  std::map<std::string_view, std::vector<std::string>> collided;
  Problem p = make_problem(ProblemId::keys_collide, {.path = catalog.path});
  for (const Entry& e : entries) {
    if (e.is_blob() && objects == Objects::kNo) continue;
    const auto [it, fresh] = names.try_emplace(e.key, &e);
    if (fresh) continue;
    std::vector<std::string>& keys = collided[e.key];
    if (keys.empty()) keys.emplace_back(catalog.key(it->second->ref));
    keys.emplace_back(catalog.key(e.ref));
    p.place.tensor = keys.back();
    p.place.object = e.is_blob();
    p.got = "'" + std::string(e.key) + "', which is also the name of '" + keys.front() + "'";
  }
  if (collided.empty()) return;
  if (collided.size() > 1 || collided.begin()->second.size() > 2) {
    p.place.tensor.clear();
    p.got.clear();
    size_t said = 0;
    for (const auto& [name, keys] : collided)
      if (said++ < 10) p.got += (p.got.empty() ? "'" : "; '") + std::string(name) + "' of " + list_of(keys, 4);
    if (said > 10) p.got += "; and " + std::to_string(said - 10) + " more";
  }
  throw Error(std::move(p));
}

bool is_more_than_model(const Selection& s) {
  return std::ranges::any_of(s.entries, [&](const Entry& e) { return !s.state.is_model(e.ref) || s.state.model_of(e.ref).components > 0; });
}

bool matches(const KeyRule& rule, const std::string& key) {
  if (rule.kind == KeyRule::Kind::kKey) return rule.text == key;
  return glob_matches(rule.text, key);
}

void fail_several(const Catalog& catalog, const std::vector<std::string>& paths) {
  Problem p = make_problem(ProblemId::several_models, {.path = catalog.path, .setting = "root"});
  for (const std::string& path : paths) {
    if (!path.empty()) p.names.push_back(path);
    else p.expected = "one of them, or all of them excluded: the keys around them are a model, too";
  }
  throw Error(std::move(p));
}

void fail_doubtful(const Catalog& catalog, const TrainingState& state, Doubt doubt) {
  const bool is_dtype = doubt == Doubt::kWhichDtype;
  Problem p = make_problem(ProblemId::several_models, {.path = catalog.path, .setting = is_dtype ? "dtype_rule" : "exclude"});
  p.what = "tensors that have the names and shapes of others may be a second model, or an optimizer's";
  p.hint = is_dtype ? "keep their dtype so if they are an optimizer's, or cast all tensors if they are weights"
                    : "leave them out so if they are an optimizer's, or ask for all keys if they are weights";
  for (const std::string& glob : state.doubtful_globs) p.names.push_back("'" + glob + (is_dtype ? "=keep'" : "'"));
  throw Error(std::move(p));
}

void refuse_unmatched(const Catalog& catalog, const UnmatchedRule& rule, std::string hint) {
  throw Error(
      with_hint(with_what(make_problem(ProblemId::key_missing, {.path = catalog.path, .setting = rule.setting}, "'" + rule.text + "'"),
                          "no key matches"),
                std::move(hint)));
}

std::vector<KeyRule> meant_rules(std::vector<KeyRule> rules, const KnownKeys& keys) {
  for (KeyRule& r : rules)
    if (r.kind != KeyRule::Kind::kKey) r.text = keys.meant(r.text);
  return rules;
}

std::vector<PathPart> source_path(const Catalog& c, const Entry& e) {
  const PathRange range = e.is_blob() ? c.blobs[e.blob()].path : c.tensors[e.tensor()].path;
  if (range.count == 0) return {{c.key(e.ref)}};
  std::vector<PathPart> path;
  for (uint32_t i = range.first; i < range.first + range.count; ++i) {
    const PathElement p = c.path_elements[i];
    path.push_back(p.is_position() ? PathPart{{}, static_cast<int64_t>(p.list_position())}
                                   : PathPart{c.strings[p.name_id()], -1, p.is_integer()});
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

void name_by_paths(const Catalog& catalog, Selection& s) {
  for (Entry& e : s.entries)
    if (catalog.traits().in_torch_files && e.key.find('#') != e.key.npos) e.key = s.texts.emplace_back(joined(s.path(e)));
}

Selection select_keys(const Catalog& catalog, const SelectOptions& options) {
  Selection s;
  s.state = find_training_state(catalog);
  keep_by_rules(catalog, options, s);
  // The root first: what a model-only selection strips may be a part of it.
  if (!options.root.empty() && !s.entries.empty()) keep_under(catalog, options, s);
  if (options.model_only && !s.entries.empty()) keep_model(catalog, options.keep_root, s);
  if (options.tensors_only) leave_out_objects(s);
  if (options.tensors_only || options.no_extra_states)
    s.dropped_states = std::erase_if(s.entries, [&](const Entry& e) { return is_extra_state(catalog, e); });
  if (s.entries.empty() && !catalog.order.empty()) {
    Problem p = make_problem(ProblemId::nothing_selected, {.path = catalog.path},
                             s.dropped_non_model.keys == 0 ? ""
                             : options.root.empty()        ? "nothing that is model"
                                                           : "nothing under '" + options.root + "' that is model");
    if (!s.unmatched.empty()) p.hint = keys_of(catalog).hint_for(s.unmatched.front().text);
    lack(options, std::move(p), s);
  }
  if (!options.add_root.empty()) put_under(options.add_root, s);
  rename_keys(catalog, options, s);
  if (s.renamed > 0) refuse_collisions(catalog, s.entries);
  choose_dtypes(catalog, options.dtypes, s);
  return s;
}

}  // namespace dcp
