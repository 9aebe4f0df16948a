#include "app/fill.h"

#include <algorithm>
#include <map>
#include <set>

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

std::vector<int64_t> shape_of(const Catalog& catalog, TensorId id) {
  const Dims dims = catalog.dims(catalog.tensors[id]);
  return {dims.begin(), dims.end()};
}

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
void check_by_family(const Two& two, std::vector<TensorId>& taken, World& world) {
  const auto& [request, catalog, selection, other] = two;
  const maps::Config config = model_config(request.map.config, {request.assets, other.single_file ? "" : other.folder}, world.store);
  const auto map = maps::family_map(config.model_type(), "transformers", Limits());
  if (!map) return;
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
  std::erase_if(taken, [&](TensorId id) { return copies.contains(id); });
  try {
    check_holds(made, world);
  } catch (const Error& e) {
    Problem p = e.problem();
    if (p.id == ProblemId::map_tensor_missing && p.hint.empty()) p.hint = escaped(request.model) + " lacks it, too";
    throw Error(std::move(p));
  }
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
  check_by_family(two, taken, world);
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
