#include "app/fit_map.h"

#include <algorithm>
#include <iterator>

#include "app/model_config.h"
#include "base/text.h"
#include "maps/apply_map.h"
#include "maps/builtin.h"
#include "maps/config.h"
#include "maps/names.h"
#include "maps/published.h"
#include "select/quantized.h"

namespace dcp {
namespace {

// What is wrong between names and shapes on one side, and config.json on the other; none if a map goes with both.
template <class Ask>
std::optional<Problem> difference(const Ask& ask) {
  using enum ProblemId;
  constexpr ProblemId kAll[] = {map_config,         map_size_unknown, map_size_differs, map_size_remainder, map_index_gap,
                                map_tensor_missing, map_key_unmapped, map_side_unclear, map_name_twice,     map_dtypes_differ,
                                map_auto_none,      map_auto_several, map_quantized,    map_tied_differ};
  try {
    ask();
    return {};
  } catch (const Error& e) {
    if (std::ranges::find(kAll, e.problem().id) == std::end(kAll)) throw;
    return e.problem();
  }
}

// More rows of the embedding than config.json says are no other model. None: it has no more.
std::vector<maps::Setting> larger_vocabulary(const maps::Config& config, const MapQuestion& q) {
  std::vector<maps::Setting> corrections;
  for (const std::string path : {"vocab_size", "text_config.vocab_size"}) {
    const auto said = config.number(path);
    if (!said) continue;
    for (const Entry& e : q.selection.entries) {
      if (e.is_blob() || e.key.find("embed") == e.key.npos) continue;
      const Dims dims = q.catalog.dims(q.catalog.tensors[e.tensor()]);
      if (dims.size() != 2 || static_cast<uint64_t>(dims[0]) <= *said) continue;
      corrections.push_back({path, std::to_string(dims[0])});
      break;
    }
  }
  return corrections;
}

// A model without a head has no component above its names; transformers finds them.
bool is_bare_base(const maps::Config& config, const Selection& selection) {
  const auto map = maps::family_map(config.model_type(), "transformers", Limits());
  if (!map || !config.architecture().ends_with("Model")) return false;
  std::vector<std::string> names;
  for (const Entry& e : selection.entries)
    if (!e.is_blob()) names.push_back("model." + std::string(e.key));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  return maps::fit_of(*map, maps::Side::kRight, keys).taken == keys.size();
}

std::string first_keys(const Selection& selection) {
  uint64_t tensors = 0;
  std::string_view first;
  for (const Entry& e : selection.entries)
    if (!e.is_blob() && tensors++ == 0) first = e.key;
  return shortened(first) + (tensors > 1 ? " and " + counted(tensors - 1, "other") : "");
}

// Numbers and scales, by their keys.
std::vector<std::string> quantized_of(const Catalog& catalog, const Selection& selection) {
  const HasKey has_key = [&](std::string_view key) { return catalog.has_key(key); };
  const HasKey has_bytes = bytes_of_catalog(catalog);
  std::vector<std::string> all;
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) continue;
    const Tensor& t = catalog.tensors[e.tensor()];
    const std::string_view key = catalog.key(t);
    if (is_quantized(key, t.dtype, has_key) || pair_of_companion(key, has_key) || is_scale_of_bytes(key, has_bytes))
      all.emplace_back(e.key);
  }
  std::ranges::sort(all);
  return all;
}

// A name of each map of the family.
std::string expected_names(const std::string& model_type) {
  std::string all;
  for (const std::string_view dialect : {"transformers", "torchtitan", "megatron"}) {
    const auto map = maps::family_map(model_type, dialect, Limits());
    if (!map || map->lines.empty()) continue;
    const std::vector<maps::LineTensor>& side = map->lines[0].sides[dialect == "transformers" ? 1 : 0];
    if (!side.empty()) all += (all.empty() ? "names such as " : ", or ") + to_text(*map, side[0].names[0]) + " (" + map->name + ")";
  }
  return all;
}

Problem model_difference(const maps::Config& config, const Selection& s, const Problem& why) {
  Problem p = make_problem(ProblemId::model_differs, {.path = config.path(), .tensor = why.place.tensor});
  p.quote = why.quote;
  if (why.id == ProblemId::map_tensor_missing) {
    p.got = kNoSuchTensor;
    p.expected = "what " + why.place.path + " needs";
  } else if (why.id == ProblemId::map_auto_none || why.id == ProblemId::map_auto_several) {
    p.got = first_keys(s);
    p.expected = expected_names(config.model_type());
  } else {
    p.got = why.got.empty() ? why.what : why.got;
    p.expected = why.expected;
    p.names = why.names;
    if (why.id == ProblemId::map_size_differs) p.hint = why.hint;
    if (why.id == ProblemId::map_tied_differ) p.remedy = why.remedy;
  }
  if (s.root.empty() && s.stripped_root.empty() && s.dropped_non_model.keys == 0 && is_more_than_model(s)) p.remedy = Remedy::kModelOnly;
  return p;
}

}  // namespace

AskedMap ask_fitting_map(MapRequest request, World& world, MapQuestion q) {
  maps::Config config;
  const auto as_it_is = [&](const std::string& why) -> AskedMap {
    world.events.info(why + ": names are written as they are");
    return {.answer = {}, .published = {}, .keeps = q.dtype ? kept_by_family(config, *q.dtype) : maps::KeepsFloat32()};
  };
  try {
    config = model_config(request.config, {q.assets}, world.store);
  } catch (const Error& e) {
    if (!request.config.empty() || class_of(e.problem().id) != ProblemClass::kInput) throw;
    return as_it_is(world.events.line_of(e.problem()));
  }
  const std::string type = config.model_type(), loads = maps::class_of(type, Limits()), is = config.architecture();
  const std::string no_map =
      config.path() + (type.empty() ? ": it names no model_type" : ": no map knows the model_type '" + escaped(type) + "'");
  if (known_model_type(config).empty()) return as_it_is(no_map);
  if (is_bare_base(config, q.selection)) return as_it_is(config.path() + ": the names are those of " + escaped(is) + " alone");
  request.map = "auto";
  // Of a model of images, the names of the text model's part say nothing of the rest.
  request.unmapped = loads.empty() ? maps::Unmapped::kError : maps::Unmapped::kKeep;
  q.may_be_other_class = !is.empty() && !loads.empty() && is != loads;
  q.is_whole = !loads.empty() && !q.may_be_other_class;

  AskedMap asked;
  const auto wrong_of = [&](MapQuestion& question) {
    const auto ask = [&] { asked = ask_map(request, world, question); };
    std::optional<Problem> wrong = difference(ask);
    if (wrong && wrong->id == ProblemId::map_size_differs) question.corrections = larger_vocabulary(config, question);
    if (!question.corrections.empty()) wrong = difference(ask);
    if (!wrong && !question.corrections.empty())
      world.events.info(config.path() + ": the embedding has " + question.corrections[0].value +
                        " rows, more than vocab_size says; from_pretrained loads it if that is changed");
    if (!wrong && asked.answer) wrong = difference([&] { check_holds(asked.answer->made, world); });
    return wrong;
  };
  std::optional<Problem> wrong = wrong_of(q);
  if (!wrong) {
    if (asked.answer)
      for (maps::Tie& t : asked.answer->made.ties) t.difference = model_difference(config, q.selection, t.difference);
    return asked;
  }
  if (wrong->id == ProblemId::map_quantized) {  // the others must be those of the model
    MapQuestion of_others = q;
    of_others.quantized = quantized_of(q.catalog, q.selection);
    wrong = wrong_of(of_others);
    const bool stays = !asked.answer || asked.answer->stays_published || asked.answer->keeps_names;
    if (!wrong && stays) return as_it_is("no map is applied to quantized weights");
    if (!wrong)
      wrong = make_problem(ProblemId::map_key_unmapped, {}, first_keys(q.selection),
                           "the published names: no map is applied to quantized weights");
  }
  if (loads.empty()) return as_it_is(no_map);
  throw Error(model_difference(config, q.selection, *wrong));
}

}  // namespace dcp
