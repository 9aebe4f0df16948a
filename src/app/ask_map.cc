#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "app/mapped.h"
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

std::vector<std::string_view> keys_of(const std::vector<maps::Parameter>& parameters) {
  std::vector<std::string_view> keys;
  for (const maps::Parameter& p : parameters) keys.push_back(p.key);
  return keys;
}

// One request in the making.
class Asking {
 public:
  Asking(const MapRequest& request, World& world, const MapQuestion& q) : request_(request), world_(world), q_(q) {
    config_ = model_config(request.config, {q.assets, q.catalog.folder}, world.store);
    for (const maps::Setting& s : q.corrections) config_.set(s);
    if (q.has_run) run_ = maps::run_keys(q.catalog, q.selection);
    if (run_.is_bare_model()) run_.model = maps::parameters_of(q.selection);
  }

  AskedMap run() {
    AskedMap asked{.answer = answer(), .published = {}, .keeps = {}};
    const MapAnswer* const a = asked.answer ? &*asked.answer : nullptr;
    asked.keeps = a != nullptr ? maps::kept_too(keeps_, a->made.in_float32) : keeps_;
    if (a == nullptr || (!a->to && (are_published_ || a->made.from == maps::Side::kLeft))) asked.published = published_model(a);
    return asked;
  }

 private:
  std::optional<MapAnswer> answer() {
    MapAnswer& answer = answer_;
    answer.made.from = request_.from.value_or(maps::Side::kLeft);
    const bool has_model = !run_.model.empty();
    const std::vector<maps::Parameter>& first = has_model ? run_.model : run_.optimized;
    const bool has_map = choose_maps(answer, first);
    keeps_ = kept_names(answer);
    if (!has_map) return std::move(published_);
    maps::Mapping made = through_first(answer, first, !has_model);
    if (!answer.to && made.from == maps::Side::kLeft && made.problems.empty() && moves_nothing(answer.map, made.targets))
      report_published("", made.not_made);
    if (run_.is_bare_model()) {
      answer.made = std::move(made);
      return std::move(answer);
    }
    from_ = made.from;
    maps::Mapping optimized =
        has_model ? through(answer, run_.optimized, true) : std::exchange(made, {.from = made.from, .notes = made.notes});
    for (Problem& p : optimized.problems) {
      p.place.tensor = "state of " + p.place.tensor;
      made.problems.push_back(std::move(p));
    }
    std::ranges::move(optimized.left_out, std::back_inserter(made.left_out));
    const maps::ModelMap& last = answer.to ? *answer.to : answer.map;
    const maps::Side side = answer.to ? maps::Side::kLeft : maps::other(made.from);
    if (made.problems.empty())
      answer.run = maps::follow(q_.catalog, run_, {last, side, request_.unmapped, request_.model_root}, optimized, made);
    answer.made = std::move(made);
    return std::move(answer);
  }

  // By the lines of a file, else by those of the family's own map.
  maps::KeepsFloat32 kept_names(const MapAnswer& answer) const {
    if (!q_.dtype) return {};
    if (is_map_file(request_.map) && !answer.map.keeps.empty()) return maps::kept_in_float32(answer.map, *q_.dtype);
    return kept_by_family(config_, *q_.dtype);
  }

  PublishedModel published_model(const MapAnswer* answer) const {
    const std::string type = config_.model_type();
    std::string name;
    if (is_map_file(request_.map)) name = maps::class_of(answer->map, type);
    else if (!q_.may_be_other_class && (answer == nullptr || answer->made.kept.empty()))
      name = maps::class_of(type, Limits());  // what is kept is of another class
    return {.model_type = type, .architecture = std::move(name), .is_text_part = is_text_part_};
  }

  // Settings of which each of two maps takes those that it asks for; what neither does is both's fault.
  maps::MapOptions options_for(const maps::ModelMap& map, const maps::ModelMap* other, bool is_state) const {
    maps::MapOptions options{.settings = {},
                             .from = from_,
                             .are_published = q_.catalog.traits().tensors_only,
                             .unmapped = request_.unmapped,
                             .is_state = is_state,
                             .may_mix_dtypes = q_.dtype.has_value(),
                             .memory_bytes = q_.memory_bytes};
    for (const maps::Setting& s : request_.settings)
      if (maps::asks_for(map, s.name) || other == nullptr || !maps::asks_for(*other, s.name)) options.settings.push_back(s);
    return options;
  }

  // A map has the names that modules give themselves, unless it says otherwise.
  void unwrap() {
    std::vector<maps::Parameter> raw;
    for (const Entry& e : q_.selection.entries)
      if (!e.is_blob()) raw.push_back({std::string(e.key), e.tensor()});
    const auto takes_all = [&](maps::Side side) { return maps::fit_of(answer_.map, side, keys_of(raw)).taken == raw.size(); };
    if (!run_.any && !answer_.map.lines.empty() && (takes_all(maps::Side::kLeft) || takes_all(maps::Side::kRight))) {
      run_ = {};
      run_.model = std::move(raw);
      return;
    }
    uint64_t wrapped = 0;
    std::string_view example;
    for (const Entry& e : q_.selection.entries)
      if (!e.is_blob() && maps::unwrapped(e.key) != e.key && wrapped++ == 0) example = e.key;
    if (wrapped > 0)
      world_.events.info("ignored wrapper prefixes in " + counted(wrapped, "key") + ", such as '" + shortened(example) + "'");
  }

  // The scale counts whether or not it is selected.
  void refuse_quantized(const std::vector<maps::Parameter>& parameters) const {
    maps::refuse_quantized(keys_of(parameters));
    const HasKey has_key = [&](std::string_view key) { return q_.catalog.has_key(key); };
    for (const maps::Parameter& p : parameters)
      if (const Tensor& t = q_.catalog.tensors[p.tensor]; is_quantized(q_.catalog.key(t), t.dtype, has_key))
        fail(ProblemId::map_quantized, {.path = q_.catalog.path, .tensor = std::string(q_.catalog.key(t))}, "scales that are not selected");
  }

  // False: none, since the names are those that are published. Then a second map is the only one.
  bool choose_maps(MapAnswer& answer, const std::vector<maps::Parameter>& parameters) {
    from_ = request_.from;
    refuse_quantized(parameters);
    if (!request_.to.empty()) answer.to = open_map(request_.to, world_.store);
    bool are_published = false;
    if (request_.map == "auto") {
      unwrap();
      maps::Auto found = found_map(parameters);
      are_published = are_published_ = found.maps.empty();
      if (are_published) check_published(found);
      else answer.map = std::move(found.maps[0]);
      from_ = maps::Side::kLeft;
    } else {
      answer.map = open_map(request_.map, world_.store);
      unwrap();
      if (is_of_text(parameters)) take_text_names();
      else if (is_for_text_model()) take_text_config(), report_text_config();
      if (!from_) from_ = side_of(answer.map, parameters);
      are_published = answer.to && from_ == maps::Side::kRight;
      if (are_published) world_.events.info("keys already have the published names: only the second map is applied");
    }
    if (!are_published) return true;
    if (!answer.to) return false;
    answer.map = std::move(*std::exchange(answer.to, std::nullopt));
    from_ = maps::Side::kRight;
    return true;
  }

  maps::Side side_of(const maps::ModelMap& map, const std::vector<maps::Parameter>& parameters) const {
    try {
      return maps::side_of(map, keys_of(parameters), q_.catalog.traits().tensors_only);
    } catch (const Error& e) {
      throw Error(with_fitting(e.problem(), parameters));
    }
  }

  // Where the map does not fit, those that do are named.
  Problem with_fitting(Problem p, const std::vector<maps::Parameter>& parameters) const {
    const std::vector<std::string_view> keys = keys_of(parameters);
    if (request_.map == "auto" || is_map_file(request_.map) || keys.empty()) return p;
    if (maps::fit_of(answer_.map, from_.value_or(maps::Side::kLeft), keys).taken == keys.size()) return p;
    if (const std::string fitting = maps::map_taking(keys, answer_.map.name, Limits()); !fitting.empty())
      p.hint = "the map " + fitting + " has all of these names";
    return p;
  }

  // More of the names are the map's, if they are those of a text model.
  bool is_of_text(const std::vector<maps::Parameter>& parameters) const {
    std::vector<std::string> own;
    for (const maps::Parameter& p : parameters) own.push_back(maps::of_text_model(p.key));
    const std::vector<std::string_view> keys = keys_of(parameters), own_keys(own.begin(), own.end());
    const auto best_fit = [&](const std::vector<std::string_view>& of) {
      return std::max(maps::fit_of(answer_.map, maps::Side::kLeft, of).taken, maps::fit_of(answer_.map, maps::Side::kRight, of).taken);
    };
    return keys != own_keys && best_fit(keys) < best_fit(own_keys);
  }

  maps::Auto find_map(const std::vector<maps::Parameter>& parameters, bool may_leave) {
    const auto ask = [&](bool leaves) {
      const std::vector<std::string_view> keys = keys_of(parameters);
      return maps::auto_map({.model_type = config_.model_type(), .config_path = config_.path(), .keys = keys, .may_leave = leaves},
                            Limits());
    };
    try {
      maps::Auto found = ask(false);
      // A trainer's map may publish the text model under its own names.
      if (found.maps.empty() && !found.published)
        if (std::optional<maps::Auto> of_text = find_by_text_config(ask)) return std::move(*of_text);
      return found;
    } catch (const Error& e) {
      if (e.problem().id != ProblemId::map_auto_none) throw;
      if (!take_text_names()) {
        if (std::optional<maps::Auto> of_text = find_by_text_config(ask)) return std::move(*of_text);
        if (!may_leave) fail_below_root(e.problem());
      }
    }
    return ask(may_leave);
  }

  // The names may be a map's below the root of the model.
  [[noreturn]] void fail_below_root(Problem p) const {
    for (const Entry& e : q_.selection.entries) {
      if (!p.hint.empty() || !run_.is_bare_model() || !q_.selection.state.is_model(e.ref)) break;
      const std::string& root = q_.selection.state.model_of(e.ref).path;
      if (!root.empty() && q_.selection.stripped_root.empty() && e.key.starts_with(root + "."))
        p.hint = "model-only takes what is below the root '" + root + "'";
    }
    throw Error(std::move(p));
  }

  // The names are a text model's own, and only config.json is that of a model of images.
  template <class Ask>
  std::optional<maps::Auto> find_by_text_config(const Ask& ask) {
    if (!config_.has(kTextType)) return {};
    const maps::Config whole = config_;
    take_text_config();
    try {
      maps::Auto found = ask(false);
      report_text_config();
      return found;
    } catch (const Error& e) {
      if (e.problem().id != ProblemId::map_auto_none) throw;
      config_ = whole;
      is_text_part_ = false;
      return {};
    }
  }

  bool is_for_text_model() const {
    const auto has = [&](const std::string& type) { return std::ranges::find(answer_.map.families, type) != answer_.map.families.end(); };
    return config_.has(kTextType) && !has(config_.model_type()) && has(config_.within("text_config").model_type());
  }

  void report_text_config() const {
    world_.events.info(config_.path() + " is of an image model: used its text_config, of model_type " + escaped(config_.model_type()));
  }

  // The names of a text model within one of images become its own. False: there are none.
  bool take_text_names() {
    uint64_t renamed = 0;
    std::string example;
    for (auto* const parameters : {&run_.model, &run_.optimized})
      for (maps::Parameter& p : *parameters) {
        std::string own = maps::of_text_model(p.key);
        if (own == p.key) continue;
        if (renamed++ == 0) example = p.key;
        p.key = std::move(own);
      }
    if (renamed == 0) return false;
    take_text_config();
    world_.events.info("read the text part of an image model by its own names: " + counted(renamed, "key") + ", such as '" +
                       shortened(example) + "'");
    return true;
  }

  void take_text_config() {
    is_text_part_ = config_.has(kTextType);
    config_ = config_.within("text_config");
  }

  maps::Auto found_map(const std::vector<maps::Parameter>& parameters) {
    if (!config_.is_given()) {
      Problem p = make_problem(ProblemId::map_config, {}, "none in " + (q_.assets.empty() ? "" : q_.assets + " and ") + q_.catalog.folder);
      p.what = "choosing a map needs a config.json with a model_type";
      throw Error(std::move(p));
    }
    maps::Auto found = find_map(parameters, request_.unmapped != maps::Unmapped::kError);
    if (request_.from == maps::Side::kRight && found.published) found.maps.clear();
    const maps::Side side = found.maps.empty() ? maps::Side::kRight : maps::Side::kLeft;
    if (request_.from.value_or(side) != side) {
      Problem p = make_problem(ProblemId::map_side_unclear, {}, "those of its " + std::string(maps::name_of(side)) + " side");
      p.what = "the keys do not match the requested side";
      if (!found.maps.empty()) p.place.path = found.maps[0].name;
      throw Error(std::move(p));
    }
    return found;
  }

  // The names are those that are published: what transformers loads must be there. Nothing is moved, but copies of tied weights and prefixes of
  // wrappers are left out: what the map makes of it, and makes of that on the way back.
  void check_published(const maps::Auto& found) {
    if (!found.published) return world_.events.info("no map applied: keys already have the published names");
    MapAnswer answer{.map = *found.published, .to = {}, .made = {}, .run = {}, .left_out = {}};
    from_ = maps::Side::kRight;
    answer.made = through(answer, run_.model, false);
    check_holds(answer, world_);
    report_published("no map applied: ", answer.made.not_made);
    if (!run_.is_bare_model()) return;
    maps::MapOptions back = options_for(answer.map, nullptr, false);
    back.from = maps::Side::kLeft;
    add_second(answer.map, back, answer.made);
    const auto is_unchanged = [&](const Entry& e) {
      return e.is_blob() || std::ranges::binary_search(answer.made.targets, e.key, {}, &IndexMap::key);
    };
    if (!std::ranges::all_of(q_.selection.entries, is_unchanged)) published_ = std::move(answer);
    else if (!answer.made.kept.empty())
      world_.events.info(counted(answer.made.kept.size(), "more tensor") + ": " + list_of(answer.made.kept, 10));
  }

  // Of names that are alike in memory and published, the map moves nothing.
  bool moves_nothing(const maps::ModelMap& map, const std::vector<IndexMap>& targets) const {
    const auto stays = [&](const IndexMap& m) {
      return std::ranges::all_of(m.blocks, [&](const IndexBlock& b) {
        return b.source != IndexBlock::kZeros && q_.catalog.key(q_.catalog.tensors[b.source]).ends_with(m.key);
      });
    };
    return request_.map == "auto" && map.name.ends_with(".transformers") && std::ranges::all_of(targets, stays);
  }

  void report_published(const std::string& before, const std::vector<std::string>& lacking) {
    std::string all = before + "keys already have the published names, and everything that " +
                      std::string(maps::tried_against("transformers")) + " loads is there";
    for (const std::string& name : lacking) all += (&name == &lacking.front() ? " except " : ", ") + name;
    world_.events.info(all);
    const std::string is = config_.architecture(), loads = maps::class_of(config_.model_type(), Limits());
    if (q_.assets.empty() && !is.empty() && !loads.empty() && is != loads)
      world_.events.info(config_.path() + ": architectures is " + escaped(is) + ", but transformers loads model_type " +
                         escaped(config_.model_type()) + " as " + loads);
  }

  // Throws what check_against() throws.
  void check_published(const maps::Mapping& made, const std::vector<maps::Parameter>& parameters) const {
    if (!config_.is_given() || !made.problems.empty()) return;
    maps::Config config = config_;
    for (const maps::Setting& s : request_.settings)
      if (config.has(s.name)) config.set(s);
    const bool are_made = made.from == maps::Side::kLeft;
    maps::check_against(config, are_made ? maps::as_sources(made.targets) : maps::sources_of(q_.catalog, parameters));
  }

  maps::Mapping through_first(const MapAnswer& answer, const std::vector<maps::Parameter>& parameters, bool is_state) const {
    try {
      maps::Mapping made = through(answer, parameters, is_state);
      if (!made.problems.empty()) made.problems.front() = with_fitting(std::move(made.problems.front()), parameters);
      return made;
    } catch (const Error& e) {
      throw Error(with_fitting(e.problem(), parameters));
    }
  }

  // What the maps make of parameters.
  maps::Mapping through(const MapAnswer& answer, const std::vector<maps::Parameter>& parameters, bool is_state) const {
    const maps::ModelMap* const to = answer.to ? &*answer.to : nullptr;
    maps::Mapping made = maps::apply_to_selected(answer.map, config_, options_for(answer.map, to, is_state), q_.catalog, parameters);
    if (!is_state) check_published(made, parameters);
    if (q_.may_be_other_class)
      std::erase_if(made.problems,
                    [](const Problem& p) { return p.id == ProblemId::map_tensor_missing && p.quote.find("lm_head") != p.quote.npos; });
    if (made.from == maps::Side::kRight)
      mark_float32(made, made.targets, [&](uint32_t source) { return q_.catalog.key(q_.catalog.tensors[source]); });
    if (to == nullptr || !made.problems.empty()) return made;
    maps::MapOptions options = options_for(*to, &answer.map, is_state);
    options.from = maps::Side::kRight;
    add_second(*to, options, made);
    return made;
  }

  template <class NameOf>
  void mark_float32(maps::Mapping& made, const std::vector<IndexMap>& targets, const NameOf& name_of) const {
    if (!keeps_) return;
    for (const IndexMap& m : targets)
      if (std::ranges::any_of(m.blocks, [&](const IndexBlock& b) { return b.source != IndexBlock::kZeros && keeps_(name_of(b.source)); }))
        made.in_float32.insert(m.key);
  }

  void add_second(const maps::ModelMap& to, const maps::MapOptions& options, maps::Mapping& first) const {
    maps::Mapping second = maps::apply_map(to, config_, options, maps::as_sources(first.targets), Limits());
    mark_float32(first, second.targets, [&](uint32_t source) { return std::string_view(first.targets[source].key); });
    const auto joined = [&](const IndexMap& m) { return maps::compose({&m, 1}, first.targets, Limits()).front(); };
    for (const maps::Tie& t : second.ties) first.ties.push_back({joined(t.tensor), joined(t.same_as), t.difference});
    std::set<uint32_t> left_out(first.left_out.begin(), first.left_out.end());
    for (const uint32_t published : second.left_out)
      for (const IndexBlock& b : first.targets[published].blocks)
        if (b.source != IndexBlock::kZeros) left_out.insert(b.source);
    first.left_out.assign(left_out.begin(), left_out.end());
    std::ranges::move(second.not_made, std::back_inserter(first.not_made));
    std::ranges::move(second.notes, std::back_inserter(first.notes));
    std::ranges::move(second.problems, std::back_inserter(first.problems));
    first.targets = maps::compose(second.targets, first.targets, Limits());
    first.copies = std::move(second.copies);
  }

  const MapRequest& request_;
  World& world_;
  const MapQuestion& q_;
  maps::Config config_;
  maps::RunKeys run_;
  std::optional<maps::Side> from_;
  MapAnswer answer_;
  std::optional<MapAnswer> published_;  // of published names
  bool are_published_ = false;          // already, whatever else is left out of them
  bool is_text_part_ = false;
  maps::KeepsFloat32 keeps_;  // of published names, and of those in memory
};

}  // namespace

AskedMap ask_map(const MapRequest& request, World& world, const MapQuestion& q) {
  if (request.map.empty()) return {};
  AskedMap asked = Asking(request, world, q).run();
  if (!asked.answer) return asked;
  std::vector<std::string>& left_out = asked.answer->left_out;
  for (const uint32_t t : asked.answer->made.left_out) left_out.emplace_back(q.catalog.key(q.catalog.tensors[t]));
  std::ranges::sort(left_out);
  left_out.erase(std::ranges::unique(left_out).begin(), left_out.end());
  return asked;
}

}  // namespace dcp
