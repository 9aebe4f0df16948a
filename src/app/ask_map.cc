#include "app/ask_map.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "app/model_config.h"
#include "base/text.h"
#include "maps/apply_map.h"
#include "maps/builtin.h"
#include "maps/config.h"
#include "maps/index_map.h"
#include "maps/names.h"
#include "maps/published.h"
#include "maps/run_keys.h"
#include "select/quantized.h"

namespace dcp {
namespace {

constexpr const char* kTextType = "text_config.model_type";  // of the text model in one of images

using Parameters = std::vector<maps::Parameter>;

struct Asked {
  const MapRequest& request;
  World& world;
  const MapQuestion& q;

  void tell(const std::string& text) const { world.events.info(request.whose.empty() ? text : escaped(request.whose) + ": " + text); }
  std::string_view key_of(TensorId tensor) const { return q.catalog.key(q.catalog.tensors[tensor]); }
};

// --- the model

// A model as the checkpoint has it: what its configuration says, and its parameters.
struct AskedModel {
  maps::Config config;
  maps::RunKeys run;
  bool is_text_part = false;  // of a model of images, of whose configuration it has a part

  const Parameters& named() const { return run.model.empty() ? run.optimized : run.model; }  // by whose names a map is chosen
  void take_text_config() {
    is_text_part = config.has(kTextType);
    config = config.within("text_config");
  }
};

AskedModel model_of(const Asked& ask) {
  const MapQuestion& q = ask.q;
  AskedModel model{.config = model_config(ask.request.config, {q.assets, q.catalog.folder}, ask.world.store), .run = {}};
  for (const maps::Setting& s : q.corrections) model.config.set(s);
  if (q.has_run) model.run = maps::run_keys(q.catalog, q.selection);
  if (model.run.is_bare_model()) model.run.model = maps::parameters_of(q.selection);
  for (Parameters* const parameters : {&model.run.model, &model.run.optimized})
    std::erase_if(*parameters, [&](const maps::Parameter& p) { return std::ranges::binary_search(q.quantized, p.key); });
  // The scale counts whether or not it is selected.
  maps::refuse_quantized(keys_of(model.named()));
  const HasKey has_key = [&](std::string_view key) { return q.catalog.has_key(key); };
  for (const maps::Parameter& p : model.named())
    if (const Tensor& t = q.catalog.tensors[p.tensor]; is_quantized(q.catalog.key(t), t.dtype, has_key))
      fail(ProblemId::map_quantized, {.path = q.catalog.path, .tensor = std::string(q.catalog.key(t))}, "scales that are not selected");
  return model;
}

// A map has the names that modules give themselves, unless it says otherwise.
void unwrap(const Asked& ask, const maps::ModelMap* map, AskedModel& model) {
  Parameters raw;
  for (const Entry& e : ask.q.selection.entries)
    if (!e.is_blob()) raw.push_back({std::string(e.key), e.tensor()});
  const auto takes_all = [&](maps::Side side) { return maps::fit_of(*map, side, keys_of(raw)).taken == raw.size(); };
  if (!model.run.any && map != nullptr && !map->lines.empty() && (takes_all(maps::Side::kLeft) || takes_all(maps::Side::kRight))) {
    model.run = {};
    model.run.model = std::move(raw);
    return;
  }
  std::erase_if(raw, [](const maps::Parameter& p) { return maps::unwrapped(p.key) == p.key; });
  if (!raw.empty())
    ask.tell("ignored wrapper prefixes in " + counted(raw.size(), "key") + ", such as '" + shortened(raw.front().key) + "'");
}

// The names of a text model within one of images become its own. False: there are none.
bool take_text_names(const Asked& ask, AskedModel& model) {
  uint64_t renamed = 0;
  std::string example;
  for (auto* const parameters : {&model.run.model, &model.run.optimized})
    for (maps::Parameter& p : *parameters) {
      std::string own = maps::of_text_model(p.key);
      if (own == p.key) continue;
      if (renamed++ == 0) example = p.key;
      p.key = std::move(own);
    }
  if (renamed == 0) return false;
  model.take_text_config();
  ask.tell("read the text part of an image model by its own names: " + counted(renamed, "key") + ", such as '" + shortened(example) + "'");
  return true;
}

void report_text_config(const Asked& ask, const maps::Config& config) {
  ask.tell(config.path() + " is of an image model: used its text_config, of model_type " + escaped(config.model_type()));
}

// --- what maps make of it

// Maps in a row.
struct Route {
  maps::ModelMap map;
  std::optional<maps::ModelMap> to;  // applied to the result of `map`
  std::optional<maps::Side> from;    // side of `map` that the names are on
  maps::KeepsFloat32 keeps{};        // of published names, and of those in memory
};

// Where the map does not fit, those that do are named.
Problem with_fitting(const Asked& ask, const Route& route, const Parameters& parameters, Problem p) {
  const std::vector<std::string_view> keys = keys_of(parameters);
  if (ask.request.map == "auto" || is_map_file(ask.request.map) || keys.empty()) return p;
  if (maps::fit_of(route.map, route.from.value_or(maps::Side::kLeft), keys).taken == keys.size()) return p;
  if (const std::string fitting = maps::map_taking(keys, route.map.name, Limits()); !fitting.empty())
    p.hint = "the map " + fitting + " has all of these names";
  return p;
}

template <class Make>
auto naming_fitting(const Asked& ask, const Route& route, const Parameters& parameters, const Make& make) {
  try {
    return make();
  } catch (const Error& e) {
    throw Error(with_fitting(ask, route, parameters, e.problem()));
  }
}

// Settings of which each of two maps takes those that it asks for; what neither does is both's fault.
maps::MapOptions options_for(const Asked& ask, const maps::ModelMap& map, const maps::ModelMap* other) {
  maps::MapOptions options{.settings = {},
                           .from = maps::Side::kRight,
                           .are_published = ask.q.catalog.traits().tensors_only,
                           .unmapped = ask.request.unmapped,
                           .may_be_filled = ask.q.is_filled,
                           .may_mix_dtypes = ask.q.dtype.has_value(),
                           .memory_bytes = ask.q.memory_bytes};
  for (const maps::Setting& s : ask.request.settings)
    if (maps::asks_for(map, s.name) || other == nullptr || !maps::asks_for(*other, s.name)) options.settings.push_back(s);
  return options;
}

template <class NameOf>
void mark_float32(const maps::KeepsFloat32& keeps, const std::vector<IndexMap>& targets, const NameOf& name_of, maps::Mapping& made) {
  if (!keeps) return;
  for (const IndexMap& m : targets)
    if (std::ranges::any_of(m.blocks, [&](const IndexBlock& b) { return b.source != IndexBlock::kZeros && keeps(name_of(b.source)); }))
      made.in_float32.insert(m.key);
}

// What a second map makes of what the first has made.
void follow_by(const maps::ModelMap& to, const maps::Config& config, const maps::MapOptions& options, const maps::KeepsFloat32& keeps,
               maps::Mapping& first) {
  maps::Mapping second = maps::apply_map(to, config, options, maps::as_sources(first.targets), Limits());
  mark_float32(keeps, second.targets, [&](uint32_t source) { return std::string_view(first.targets[source].key); }, first);
  const auto composed = [&](const IndexMap& m) { return maps::compose({&m, 1}, first.targets, Limits()).front(); };
  for (const maps::Tie& t : second.ties) first.ties.push_back({composed(t.tensor), composed(t.same_as), t.difference});
  std::set<uint32_t> left_out(first.left_out.begin(), first.left_out.end());
  for (const uint32_t published : second.left_out)
    for (const IndexBlock& b : first.targets[published].blocks)
      if (b.source != IndexBlock::kZeros) left_out.insert(b.source);
  first.left_out.assign(left_out.begin(), left_out.end());
  std::ranges::move(second.not_made, std::back_inserter(first.not_made));
  std::ranges::copy_if(second.notes, std::back_inserter(first.notes),
                       [&](const std::string& note) { return std::ranges::find(first.notes, note) == first.notes.end(); });
  std::ranges::move(second.problems, std::back_inserter(first.problems));
  first.targets = maps::compose(second.targets, first.targets, Limits());
  first.copies = std::move(second.copies);
}

// What else transformers asks of what a map has made. Throws the first of the differences of published tensors. Where config.json says that the model
// has more than the map makes, what is missing is a problem.
void check_published(const Asked& ask, maps::Config config, const Route& route, maps::Mapping& made, const Parameters& parameters) {
  if (!config.is_given() || !made.problems.empty()) return;
  for (const maps::Setting& s : ask.request.settings)
    if (config.has(s.name)) config.set(s);
  const bool are_made = made.from == maps::Side::kLeft;
  const std::vector<maps::MapSource> published = are_made ? maps::as_sources(made.targets) : maps::sources_of(ask.q.catalog, parameters);
  std::vector<Problem> all = maps::differences(config, published);
  if (!all.empty()) throw Error(std::move(all.front()));
  const bool says_itself = !route.map.classes.empty();
  if (are_made && !route.to && !says_itself && !ask.q.is_filled) made.problems = maps::unmade(config, published);
}

// weight of weight.absmax, qweight and weight_packed
bool is_of_quantized(const MapQuestion& q, std::string_view name) {
  if (name.ends_with("weight")) name.remove_suffix(std::string_view("weight").size());
  return std::ranges::any_of(q.quantized, [&](const std::string& key) { return key.starts_with(name); });
}

// What the maps make of parameters, or of the state of these.
enum class Of : uint8_t { kModel, kState };
maps::Mapping through(const Asked& ask, const AskedModel& model, const Route& route, const Parameters& parameters, Of what) {
  const maps::ModelMap* const to = route.to ? &*route.to : nullptr;
  maps::MapOptions options = options_for(ask, route.map, to);
  options.from = route.from;
  options.is_state = what == Of::kState;
  maps::Mapping made = maps::apply_to_selected(route.map, model.config, options, ask.q.catalog, parameters);
  if (what == Of::kModel) check_published(ask, model.config, route, made, parameters);
  if (ask.q.is_filled) made.not_made.clear();
  if (what == Of::kModel && ask.q.is_whole)
    for (const std::string& name : made.not_made)
      made.problems.push_back(make_problem(ProblemId::map_tensor_missing, {.path = route.map.name, .tensor = name}));
  std::erase_if(made.problems,
                [&](const Problem& p) { return p.id == ProblemId::map_tensor_missing && is_of_quantized(ask.q, p.place.tensor); });
  if (ask.q.may_be_other_class)
    std::erase_if(made.problems,
                  [](const Problem& p) { return p.id == ProblemId::map_tensor_missing && p.quote.find("lm_head") != p.quote.npos; });
  if (made.from == maps::Side::kRight) mark_float32(route.keeps, made.targets, [&](uint32_t source) { return ask.key_of(source); }, made);
  if (to == nullptr || !made.problems.empty()) return made;
  maps::MapOptions then = options_for(ask, *to, &route.map);
  then.is_state = options.is_state;
  follow_by(*to, model.config, then, route.keeps, made);
  return made;
}

// --- names that are published

void report_published(const Asked& ask, const maps::Config& config, std::string text, const std::vector<std::string>& lacking) {
  if (ask.q.is_filled) return;  // what is there, and whether it is all, is said once it is
  const std::string is = config.architecture(), loads = maps::class_of(config.model_type(), Limits());
  text += "keys already have the published names";
  if (ask.q.may_be_other_class) text += " of " + escaped(loads) + "; what else " + escaped(is) + " needs is not known";
  else text += ", and everything that " + std::string(maps::tried_against("transformers")) + " loads is there";
  for (const std::string& name : lacking) text += (&name == &lacking.front() ? " except " : ", ") + name;
  ask.tell(text);
  if (ask.q.assets.empty() && !is.empty() && !loads.empty() && is != loads)
    ask.tell(config.path() + ": architectures is " + escaped(is) + ", but transformers loads model_type " + escaped(config.model_type()) +
             " as " + loads);
}

// Copies of tied weights that are there, and not written.
std::vector<std::string> tied_of(const Asked& ask, const maps::Mapping& made) {
  const auto is_written = [&](uint32_t source) {
    return std::ranges::any_of(made.targets, [&](const IndexMap& m) {
      return std::ranges::any_of(m.blocks, [&](const IndexBlock& b) { return b.source == source; });
    });
  };
  std::vector<std::string> all;
  for (const maps::Tie& t : made.ties)
    if (!t.tensor.blocks.empty() && !is_written(t.tensor.blocks[0].source))
      all.push_back("left out " + shortened(ask.key_of(t.tensor.blocks[0].source)) + ": it is tied to " + shortened(t.same_as.key));
  return all;
}

// A model without them is another than the one that was trained, and no map merges them.
void warn_of_adapters(const Asked& ask, const std::vector<std::string>& kept) {
  std::vector<std::string> adapters;
  std::ranges::copy_if(kept, std::back_inserter(adapters), [](const std::string& key) { return !maps::adapter_of(key).empty(); });
  if (!adapters.empty())
    ask.world.events.warn(counted(adapters.size(), "tensor") + (adapters.size() == 1 ? " is" : " are") + " of " +
                          std::string(maps::adapter_of(adapters[0])) + ", which is not merged into the weights: " + list_of(adapters, 10));
}

// What transformers loads must be there. Nothing is moved, but copies of tied weights and prefixes of wrappers are left out: what the map makes
// of it, and makes of that on the way back. nullopt: none are there.
std::optional<MapAnswer> tidied(const Asked& ask, const AskedModel& model, const std::optional<maps::ModelMap>& published) {
  if (!published) {
    if (!ask.q.is_filled) ask.tell("no map applied: keys already have the published names");
    return {};
  }
  const Route route{.map = *published, .to = {}, .from = maps::Side::kRight};
  MapAnswer answer{
      .map = *published, .to = {}, .made = through(ask, model, route, model.run.model, Of::kModel), .run = {}, .tied = {}, .left_out = {}};
  if (!answer.made.problems.empty()) return answer;
  const auto not_applied = [&]() -> std::optional<MapAnswer> {
    report_published(ask, model.config, "no map applied: ", answer.made.not_made);
    return {};
  };
  if (!model.run.is_bare_model()) return not_applied();
  maps::MapOptions back = options_for(ask, answer.map, nullptr);
  back.from = maps::Side::kLeft;
  follow_by(answer.map, model.config, back, {}, answer.made);
  answer.tied = tied_of(ask, answer.made);
  const auto is_unchanged = [&](const Entry& e) {
    return e.is_blob() || std::ranges::binary_search(answer.made.targets, e.key, {}, &IndexMap::key);
  };
  if (!std::ranges::all_of(ask.q.selection.entries, is_unchanged)) {
    report_published(ask, model.config, "", answer.made.not_made);
    answer.stays_published = true;
    return answer;
  }
  not_applied();
  warn_of_adapters(ask, answer.made.kept);
  std::erase_if(answer.made.kept, [](const std::string& key) { return !maps::adapter_of(key).empty(); });
  if (!answer.made.kept.empty()) ask.tell(counted(answer.made.kept.size(), "more tensor") + ": " + list_of(answer.made.kept, 10));
  return {};
}

// Of names that are alike in memory and published, the map moves nothing.
bool moves_nothing(const Asked& ask, const maps::ModelMap& map, const std::vector<IndexMap>& targets) {
  const auto stays = [&](const IndexMap& m) {
    return std::ranges::all_of(
        m.blocks, [&](const IndexBlock& b) { return b.source != IndexBlock::kZeros && ask.key_of(b.source).ends_with(m.key); });
  };
  return ask.request.map == "auto" && map.name.ends_with(".transformers") && std::ranges::all_of(targets, stays);
}

// --- which maps

// The names may be a map's below the root of the model.
[[noreturn]] void fail_below_root(const Asked& ask, const AskedModel& model, Problem p) {
  const Selection& selection = ask.q.selection;
  for (const Entry& e : selection.entries) {
    if (!p.hint.empty() || !model.run.is_bare_model() || !selection.state.is_model(e.ref)) break;
    const std::string& root = selection.state.model_of(e.ref).path;
    if (!root.empty() && selection.stripped_root.empty() && e.key.starts_with(root + "."))
      p.hint = "model-only takes what is below the root '" + root + "'";
  }
  throw Error(std::move(p));
}

// By the names and config.json; else by the names of a text model in one of images, or by its part of that config.json; else by most names.
maps::Auto find_map(const Asked& ask, AskedModel& model) {
  const auto found_by = [&](const maps::Config& config, bool may_leave) {
    const std::vector<std::string_view> keys = keys_of(model.named());
    return maps::auto_map({.model_type = config.model_type(), .config_path = config.path(), .keys = keys, .may_leave = may_leave},
                          Limits());
  };
  maps::Auto found = found_by(model.config, false);
  if (!found.none && (found.published || !found.maps.empty())) return found;
  const bool has_text_names = found.none && take_text_names(ask, model);
  if (!has_text_names && model.config.has(kTextType)) {
    AskedModel text = model;
    text.take_text_config();
    maps::Auto of_text = found_by(text.config, false);  // a trainer's map may publish the text model under its own names
    if (!of_text.none) {
      model = std::move(text);
      report_text_config(ask, model.config);
      return of_text;
    }
  }
  if (!found.none) return found;
  const bool may_leave = ask.request.unmapped != maps::Unmapped::kError;
  if (!has_text_names && !may_leave) fail_below_root(ask, model, std::move(*found.none));
  found = found_by(model.config, may_leave);
  if (found.none) throw Error(std::move(*found.none));
  return found;
}

maps::Auto found_map(const Asked& ask, AskedModel& model) {
  if (!model.config.is_given()) {
    Problem p =
        make_problem(ProblemId::map_config, {}, "none in " + (ask.q.assets.empty() ? "" : ask.q.assets + " and ") + ask.q.catalog.folder);
    p.what = "choosing a map needs a config.json with a model_type";
    throw Error(std::move(p));
  }
  maps::Auto found = find_map(ask, model);
  if (ask.request.from == maps::Side::kRight && found.published) found.maps.clear();
  const maps::Side side = found.maps.empty() ? maps::Side::kRight : maps::Side::kLeft;
  if (ask.request.from.value_or(side) != side) {
    Problem p = make_problem(ProblemId::map_side_unclear, {}, "those of its " + std::string(maps::name_of(side)) + " side");
    p.what = "the keys do not match the requested side";
    if (!found.maps.empty()) p.place.path = found.maps[0].name;
    throw Error(std::move(p));
  }
  return found;
}

// More of the names are the map's, if they are those of a text model.
bool is_of_text(const maps::ModelMap& map, const Parameters& parameters) {
  std::vector<std::string> own;
  for (const maps::Parameter& p : parameters) own.push_back(maps::of_text_model(p.key));
  const std::vector<std::string_view> keys = keys_of(parameters), own_keys(own.begin(), own.end());
  const auto best_fit = [&](const std::vector<std::string_view>& of) {
    return std::max(maps::fit_of(map, maps::Side::kLeft, of).taken, maps::fit_of(map, maps::Side::kRight, of).taken);
  };
  return keys != own_keys && best_fit(keys) < best_fit(own_keys);
}

bool is_for_text_model(const maps::ModelMap& map, const maps::Config& config) {
  const auto has = [&](const std::string& type) { return std::ranges::find(map.families, type) != map.families.end(); };
  return config.has(kTextType) && !has(config.model_type()) && has(config.within("text_config").model_type());
}

// The map that is named, and the side of it that the names are on.
Route named_route(const Asked& ask, AskedModel& model) {
  Route route{.map = open_map(ask.request.map, ask.world.store), .to = {}, .from = ask.request.from};
  unwrap(ask, &route.map, model);
  if (is_of_text(route.map, model.named())) {
    take_text_names(ask, model);
  } else if (is_for_text_model(route.map, model.config)) {
    model.take_text_config();
    report_text_config(ask, model.config);
  }
  if (!route.from)
    route.from = naming_fitting(ask, route, model.named(),
                                [&] { return maps::side_of(route.map, keys_of(model.named()), ask.q.catalog.traits().tensors_only); });
  return route;
}

// What applies to a model.
struct Choice {
  std::optional<Route> route;       // nullopt: the names are those that are published, and no others are wanted
  bool are_published = false;       // already, as `auto` finds, whatever else is left out of them
  std::optional<MapAnswer> tidied;  // of these
};

Choice choose(const Asked& ask, AskedModel& model) {
  std::optional<maps::ModelMap> to;
  if (!ask.request.to.empty()) to = open_map(ask.request.to, ask.world.store);
  Choice choice;
  bool needs_first = true;  // of two maps
  if (ask.request.map == "auto") {
    unwrap(ask, nullptr, model);
    maps::Auto found = found_map(ask, model);
    choice.are_published = found.maps.empty();
    needs_first = !choice.are_published;
    if (choice.are_published) choice.tidied = tidied(ask, model, found.published);
    else choice.route = Route{.map = std::move(found.maps[0]), .to = {}, .from = maps::Side::kLeft};
  } else {
    choice.route = named_route(ask, model);
    needs_first = !to || choice.route->from != maps::Side::kRight;
    if (!needs_first) ask.tell("keys already have the published names: only the second map is applied");
  }
  if (needs_first) choice.route->to = std::move(to);
  else if (to) choice.route = Route{.map = std::move(*to), .to = {}, .from = maps::Side::kRight};
  return choice;
}

// --- the answer

// By the lines of a file, else by those of the family's own map.
maps::KeepsFloat32 kept_names(const Asked& ask, const maps::Config& config, const std::optional<Route>& route) {
  if (!ask.q.dtype) return {};
  if (is_map_file(ask.request.map) && !route->map.keeps.empty()) return maps::kept_in_float32(route->map, *ask.q.dtype);
  return kept_by_family(config, *ask.q.dtype);
}

// The model, and the state of its optimizer, which is a second model.
MapAnswer answer_of(const Asked& ask, const AskedModel& model, Route route) {
  const bool has_model = !model.run.model.empty();
  maps::Mapping made = naming_fitting(ask, route, model.named(),
                                      [&] { return through(ask, model, route, model.named(), has_model ? Of::kModel : Of::kState); });
  if (!made.problems.empty()) made.problems.front() = with_fitting(ask, route, model.named(), std::move(made.problems.front()));
  MapAnswer answer{.map = {}, .to = {}, .made = {}, .run = {}, .tied = {}, .left_out = {}};
  answer.keeps_names = !route.to && made.from == maps::Side::kLeft && made.problems.empty() && moves_nothing(ask, route.map, made.targets);
  if (answer.keeps_names) report_published(ask, model.config, "", made.not_made);
  if (has_model && made.problems.empty()) answer.tied = tied_of(ask, made);
  if (!model.run.is_bare_model()) {
    route.from = made.from;
    maps::Mapping optimized = has_model ? through(ask, model, route, model.run.optimized, Of::kState)
                                        : std::exchange(made, {.from = made.from, .notes = made.notes});
    for (Problem& p : optimized.problems) {
      p.place.tensor = "state of " + p.place.tensor;
      made.problems.push_back(std::move(p));
    }
    std::ranges::move(optimized.left_out, std::back_inserter(made.left_out));
    const maps::RunTarget target{route.to ? *route.to : route.map, route.to ? maps::Side::kLeft : maps::other(made.from),
                                 ask.request.unmapped, ask.request.model_root};
    if (made.problems.empty()) answer.run = maps::follow(ask.q.catalog, model.run, target, optimized, made);
  }
  answer.map = std::move(route.map);
  answer.to = std::move(route.to);
  answer.made = std::move(made);
  return answer;
}

PublishedModel published_by(const Asked& ask, const AskedModel& model, const MapAnswer* answer) {
  const std::string type = model.config.model_type();
  std::string name;
  if (is_map_file(ask.request.map)) name = maps::class_of(answer->map, type);
  else if (!ask.q.may_be_other_class && (answer == nullptr || answer->made.kept.empty()))
    name = maps::class_of(type, Limits());  // what is kept is of another class
  PublishedModel published{.model_type = type, .architecture = std::move(name), .is_text_part = model.is_text_part};
  for (const maps::Setting& s : ask.request.settings)
    if (model.config.has(s.name) || s.name == "tie_word_embeddings") published.settings.push_back(s);
  return published;
}

// Of what has the published names.
void warn_of_unused(const Asked& ask, const AskedModel& model, const MapAnswer* answer) {
  maps::Config config = model.config;
  if (!config.is_given() || !ask.q.quantized.empty()) return;
  for (const maps::Setting& s : ask.request.settings)
    if (config.has(s.name)) config.set(s);
  std::vector<std::string_view> keys = keys_of(model.named());
  if (answer != nullptr) {
    keys.clear();
    for (const IndexMap& m : answer->made.targets) keys.push_back(m.key);
  }
  for (const Problem& p : maps::unused(config, keys)) ask.world.events.warn(ask.world.events.line_of(p));
}

}  // namespace

AskedMap ask_map(const MapRequest& request, World& world, const MapQuestion& q) {
  if (!request.is_given()) return {};
  const Asked ask{request, world, q};
  AskedModel model = model_of(ask);
  Choice choice = choose(ask, model);
  const maps::KeepsFloat32 keeps = kept_names(ask, model.config, choice.route);
  if (choice.route) choice.route->keeps = keeps;
  AskedMap asked{
      .answer = choice.route ? answer_of(ask, model, std::move(*choice.route)) : std::move(choice.tidied), .published = {}, .keeps = keeps};
  MapAnswer* const a = asked.answer ? &*asked.answer : nullptr;
  if (a != nullptr) {
    asked.keeps = maps::kept_too(keeps, a->made.in_float32);
    for (const uint32_t t : a->made.left_out) a->left_out.emplace_back(ask.key_of(t));
    std::ranges::sort(a->left_out);
    a->left_out.erase(std::ranges::unique(a->left_out).begin(), a->left_out.end());
  }
  if (a != nullptr) warn_of_adapters(ask, a->made.kept);
  if (a == nullptr || (!a->to && (choice.are_published || a->made.from == maps::Side::kLeft))) {
    asked.published = published_by(ask, model, a);
    warn_of_unused(ask, model, a);
  }
  return asked;
}

}  // namespace dcp
