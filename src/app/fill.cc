#include "app/fill.h"

#include <algorithm>
#include <map>
#include <set>

#include "app/digests.h"
#include "app/expect.h"
#include "app/model_config.h"
#include "app/output.h"
#include "base/text.h"
#include "catalog/structure.h"
#include "maps/apply_map.h"
#include "maps/builtin.h"
#include "plan/layout.h"

namespace dcp {
namespace {

std::vector<int64_t> shape_of(const Catalog& catalog, TensorId id) { return catalog.shape(catalog.tensors[id]); }

// The model that is there, under its final names, and the one that fills it.
struct Two {
  const FillRequest& request;
  const Catalog& own;
  const Selection& selection;
  const Catalog& other;
};

// Nothing is missing that is to be filled.
Expectation compare(const Two& two) {
  const auto& [request, catalog, selection, other] = two;
  std::map<std::string_view, TensorId> others;
  for (TensorId id = 0; id < other.tensors.size(); ++id) others.emplace(other.key(other.tensors[id]), id);
  Expectation found{.reference = request.model, .differences = {}, .additional = {}};
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) continue;
    const std::vector<int64_t> shape = shape_of(catalog, e.tensor());
    const auto its = others.find(e.key);
    const std::string key = escaped(e.key), got = shape_text(shape);
    if (its == others.end()) found.differences.push_back({Difference::Kind::kUnexpected, key, got, ""});
    else if (const std::vector<int64_t> expected = shape_of(other, its->second); expected != shape)
      found.differences.push_back({Difference::Kind::kShape, key, got, shape_text(expected)});
  }
  std::ranges::stable_sort(found.differences, {}, &Difference::kind);
  return found;
}

// By the map of the family: a copy of a tensor that is there and is tied to it is not taken, and nothing that the model needs may be missing.
// False where the family is not known.
bool check_by_family(const Two& two, std::vector<TensorId>& taken, World& world) {
  const auto& [request, catalog, selection, other] = two;
  const maps::Config config = model_config(request.map.config, {request.assets, other.folder}, world.store);
  const auto map = maps::family_map(config.model_type(), "transformers", Limits());
  if (!map) return false;
  std::vector<maps::MapSource> all;
  for (const Entry& e : selection.entries)
    if (!e.is_blob()) all.push_back({.key = e.key, .dtype = e.dtype, .shape = shape_of(catalog, e.tensor())});
  const size_t own = all.size();
  for (const TensorId id : taken)
    all.push_back({.key = other.key(other.tensors[id]), .dtype = other.tensors[id].dtype, .shape = shape_of(other, id)});
  const maps::MapOptions options{
      .from = maps::Side::kRight, .unmapped = maps::Unmapped::kDrop, .lists_sizes = true, .may_mix_dtypes = true};
  const maps::Mapping made = maps::apply_map(*map, config, options, all, Limits());
  std::set<TensorId> copies;
  for (const maps::Tie& t : made.ties)
    for (const auto& [copy, of] : {std::pair(&t.tensor, &t.same_as), std::pair(&t.same_as, &t.tensor)})
      if (!copy->blocks.empty() && !of->blocks.empty() && copy->blocks[0].source >= own && of->blocks[0].source < own)
        copies.insert(taken[copy->blocks[0].source - own]);
  // What lies beside a file may be another model's.
  const bool is_beside = other.single_file && request.map.config.empty() && !has_config(request.assets, world.store);
  if (is_beside && !made.problems.empty()) return false;
  std::erase_if(taken, [&](TensorId id) { return copies.contains(id); });
  try {
    check_holds(made, world);
  } catch (const Error& e) {
    Problem p = e.problem();
    if (p.id == ProblemId::map_tensor_missing && p.hint.empty()) p.hint = escaped(request.model) + " lacks it, too";
    throw Error(std::move(p));
  }
  return true;
}

// Of what would be taken, what the model that fills has twice, and the one that is there has under the other name, may be tied to that: it would then
// be the weight before training. Compared are matrices with at most a few of their shape: those of layers are alike by the hundred, and none is tied.
std::map<TensorId, TensorId> tied_to_own(const Two& two, const Opened& model, const std::vector<TensorId>& taken, World& world) {
  constexpr size_t kFew = 4;
  const Catalog& other = two.other;
  std::set<std::string_view> own;
  for (const Entry& e : two.selection.entries) own.insert(e.key);
  const auto form = [&](TensorId id) { return std::pair(other.tensors[id].dtype, shape_of(other, id)); };
  std::map<std::pair<DType, std::vector<int64_t>>, std::vector<TensorId>> own_of_form;
  for (TensorId id = 0; id < other.tensors.size(); ++id)
    if (own.contains(other.key(other.tensors[id])) && other.dims(other.tensors[id]).size() > 1) own_of_form[form(id)].push_back(id);
  std::map<TensorId, std::vector<TensorId>> alike;
  SelectOptions compared;
  for (const TensorId id : taken) {
    const auto same = own_of_form.find(form(id));
    if (same == own_of_form.end() || same->second.size() > kFew) continue;
    alike.emplace(id, same->second);
    compared.rules.push_back({KeyRule::Kind::kKey, std::string(other.key(other.tensors[id]))});
    for (const TensorId o : same->second) compared.rules.push_back({KeyRule::Kind::kKey, std::string(other.key(other.tensors[o]))});
  }
  if (alike.empty()) return {};
  const Selection selection = select_keys(other, compared);
  std::vector<TensorId> read;
  for (const Entry& e : selection.entries) read.push_back(e.tensor());
  const Resolved resolved = resolve(model, {.parts = {.tensors = read, .blobs = {}}, .faults = Faults::kCollect}, world);
  const VerifyPlan plan = plan_verify({other, resolved}, {.digests = &selection, .units = {}});
  DigestSink sink(plan.plan);
  Progress progress;
  run_digest_units({plan.plan, {other, resolved, *model.files}, 1}, sink, progress, world);  // damage is found where it is taken
  std::map<TensorId, std::optional<uint64_t>> digests;
  for (const VerifyPlan::Digest& d : plan.digests) digests[d.entry.tensor()] = sink.digest(d.file);
  std::map<TensorId, TensorId> tied;
  for (const auto& [id, same] : alike)
    for (const TensorId o : same)
      if (digests[o] && digests[o] == digests[id]) tied.emplace(id, o);
  return tied;
}

}  // namespace

Filled fill(const FillRequest& request, Ready& ready, Selected& selected, World& world) {
  Filled filled{.model = request.model, .keys = {}};
  if (request.model.empty()) return filled;
  ReadRequest reading = ready.opened.request;
  SourceRequest source;
  source.path = request.model;
  source.follow_links = reading.source.follow_links;
  reading.source = std::move(source);
  const Opened model = open(std::move(reading), ready.opened.memory_cap, world);
  const Catalog& other = model.catalog();
  refuse_source(request.output, other);
  std::set<std::string_view> own;
  for (const Entry& e : selected.selection.entries) own.insert(e.key);
  check_opened(*model.found, [&](std::string_view key) { return own.contains(key); });
  const Two two{request, ready.catalog(), selected.selection, other};
  const Expectation found = compare(two);
  const bool has_map = request.map.is_given() || (!request.map.is_declined && has_config(request.assets, world.store));
  Problem p = make_problem(ProblemId::expect_differs, {.path = request.model});
  p.what = "the model to fill has other tensors";
  if (!found.differences.empty() && found.differences.front().kind == Difference::Kind::kUnexpected)
    p.hint =
        (has_map ? "" : world.events.name_of("map") + " auto or ") + world.events.name_of("rename") + " gives it the names that are there";
  refuse_differences(found, std::move(p), world);

  std::vector<TensorId> taken;
  for (TensorId id = 0; id < other.tensors.size(); ++id)
    if (!own.contains(other.key(other.tensors[id]))) taken.push_back(id);
  if (!check_by_family(two, taken, world))
    for (const auto& [id, of] : tied_to_own(two, model, taken, world))
      world.events.warn("in " + escaped(request.model) + ", " + shortened(other.key(other.tensors[id])) + " equals " +
                        shortened(other.key(other.tensors[of])) + ": if the model ties them, it is stale; a config.json beside it tells");
  for (const TensorId id : taken) check_whole(other, other.tensors[id]);

  const Resolved resolved = resolve(model, {.parts = {.tensors = taken, .blobs = {}}}, world);
  for (const TensorId id : taken) refuse_opaque({other, resolved}, id);
  const auto first = static_cast<TensorId>(ready.catalog().tensors.size());
  ready.filled = std::make_unique<const Derived>(with_tensors(ready.source(), {other, resolved}, taken));
  const Catalog& all = ready.catalog();
  ready.opened.files = std::make_shared<DataFiles>(world.store, all, ready.opened.request.source.links());
  Selection& selection = selected.selection;
  selection.state = find_training_state(all);
  for (TensorId id = first; id < all.tensors.size(); ++id) {
    const Tensor& t = all.tensors[id];
    selection.parts.push_back({.name = all.key(t)});
    selection.entries.push_back({.ref = KeyRef::tensor_at(id),
                                 .key = all.key(t),
                                 .first = static_cast<uint32_t>(selection.parts.size() - 1),
                                 .count = 1,
                                 .dtype = t.dtype});
    filled.keys.emplace_back(all.key(t));
    filled.bytes += all.tensor_bytes(t);
  }
  return filled;
}

}  // namespace dcp
