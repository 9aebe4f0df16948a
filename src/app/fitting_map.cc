#include <algorithm>
#include <utility>

#include "app/mapped.h"
#include "base/text.h"
#include "maps/builtin.h"
#include "maps/config.h"
#include "maps/names.h"

namespace dcp {
namespace {

// What is wrong between names and shapes on one side, and config.json on the other.
bool is_difference(ProblemId id) {
  using enum ProblemId;
  constexpr ProblemId kAll[] = {map_config,       map_size_unknown, map_size_differs, map_size_remainder, map_index_gap, map_tensor_missing,
                                map_key_unmapped, map_side_unclear, map_name_twice,   map_dtypes_differ,  map_auto_none, map_auto_several};
  return std::ranges::find(kAll, id) != std::end(kAll);
}

class Fitting {
 public:
  Fitting(const MapRequest& request, World& world, MapQuestion question) : request_(request), world_(world), q_(std::move(question)) {
    request_.map = "auto";
  }

  AskedMap run() {
    try {
      config_ = model_config(request_.config, {q_.assets}, world_.store);
    } catch (const Error& e) {
      if (!request_.config.empty() || class_of(e.problem().id) != ProblemClass::kInput) throw;
      return as_it_is(world_.events.line_of(e.problem()));
    }
    const std::string type = config_.model_type(), loads = maps::class_of(type, Limits()), is = config_.architecture();
    if (known_model_type(config_).empty()) return as_it_is(no_map(type));
    if (is_bare_base(type)) return as_it_is(config_.path() + ": the names are those of " + escaped(is) + " alone");
    // Of a model of images, the names of the text model's part say nothing of the rest.
    request_.unmapped = loads.empty() ? maps::Unmapped::kError : maps::Unmapped::kKeep;
    q_.may_be_other_class = !is.empty() && !loads.empty() && is != loads;
    try {
      AskedMap asked = with_vocabulary();
      if (asked.answer) check_holds(*asked.answer, world_);
      return asked;
    } catch (const Error& e) {
      if (e.problem().id == ProblemId::map_quantized) return as_it_is("no map is applied to quantized weights");
      if (!is_difference(e.problem().id)) throw;
      if (loads.empty()) return as_it_is(no_map(type));
      refuse(e.problem());
    }
  }

 private:
  std::string no_map(const std::string& type) const {
    return config_.path() + (type.empty() ? ": it names no model_type" : ": no map knows the model_type '" + escaped(type) + "'");
  }

  AskedMap as_it_is(const std::string& why) const {
    world_.events.info(why + ": names are written as they are");
    return {.answer = {}, .published = {}, .keeps = q_.dtype ? kept_by_family(config_, *q_.dtype) : maps::KeepsFloat32()};
  }

  // More rows than config.json says are no other model.
  AskedMap with_vocabulary() {
    try {
      return ask_map(request_, world_, q_);
    } catch (const Error& e) {
      if (e.problem().id != ProblemId::map_size_differs || !add_vocabulary()) throw;
      AskedMap asked = ask_map(request_, world_, q_);
      world_.events.info(config_.path() + ": the embedding has " + q_.corrections[0].value +
                         " rows, more than vocab_size says; from_pretrained loads it if that is changed");
      return asked;
    }
  }

  // False: the embedding has no more rows than config.json says.
  bool add_vocabulary() {
    for (const std::string path : {"vocab_size", "text_config.vocab_size"}) {
      const auto said = config_.number(path);
      if (!said) continue;
      for (const Entry& e : q_.selection.entries) {
        if (e.is_blob() || e.key.find("embed") == e.key.npos) continue;
        const Dims dims = q_.catalog.dims(q_.catalog.tensors[e.tensor()]);
        if (dims.size() != 2 || static_cast<uint64_t>(dims[0]) <= *said) continue;
        q_.corrections.push_back({path, std::to_string(dims[0])});
        break;
      }
    }
    return !q_.corrections.empty();
  }

  // A model without a head has no component above its names; transformers finds them.
  bool is_bare_base(const std::string& type) const {
    const auto map = maps::family_map(type, "transformers", Limits());
    if (!map || !config_.architecture().ends_with("Model")) return false;
    std::vector<std::string> names;
    for (const Entry& e : q_.selection.entries)
      if (!e.is_blob()) names.push_back("model." + std::string(e.key));
    const std::vector<std::string_view> keys(names.begin(), names.end());
    return maps::fit_of(*map, maps::Side::kRight, keys).taken == keys.size();
  }

  [[noreturn]] void refuse(const Problem& why) const {
    Problem p = make_problem(ProblemId::model_differs, {.path = config_.path(), .tensor = why.place.tensor});
    p.quote = why.quote;
    if (why.id == ProblemId::map_tensor_missing) {
      p.got = "no tensor of this name";
      p.expected = "what " + why.place.path + " needs";
    } else if (why.id == ProblemId::map_auto_none) {
      p.got = first_keys();
      p.expected = expected_names();
    } else {
      p.got = why.got.empty() ? why.what : why.got;
      p.expected = why.expected;
    }
    const Selection& s = q_.selection;
    if (s.root.empty() && s.stripped_root.empty() && s.dropped_non_model.keys == 0 && is_more_than_model(s)) p.remedy = Remedy::kModelOnly;
    throw Error(std::move(p));
  }

  std::string first_keys() const {
    uint64_t tensors = 0;
    std::string_view first;
    for (const Entry& e : q_.selection.entries)
      if (!e.is_blob() && tensors++ == 0) first = e.key;
    return shortened(first) + (tensors > 1 ? " and " + counted(tensors - 1, "other") : "");
  }

  // A name of each map of the family.
  std::string expected_names() const {
    std::string all;
    for (const std::string_view dialect : {"transformers", "torchtitan", "megatron"}) {
      const auto map = maps::family_map(config_.model_type(), dialect, Limits());
      if (!map || map->lines.empty()) continue;
      const std::vector<maps::LineTensor>& side = map->lines[0].sides[dialect == "transformers" ? 1 : 0];
      if (!side.empty()) all += (all.empty() ? "names such as " : ", or ") + to_text(*map, side[0].names[0]) + " (" + map->name + ")";
    }
    return all;
  }

  MapRequest request_;
  World& world_;
  MapQuestion q_;
  maps::Config config_;
};

}  // namespace

AskedMap ask_fitting_map(const MapRequest& request, World& world, MapQuestion question) {
  return Fitting(request, world, std::move(question)).run();
}

}  // namespace dcp
