#include "app/mapped.h"

#include <algorithm>
#include <set>

#include "app/digest_units.h"
#include "base/quantity.h"
#include "maps/builtin.h"
#include "maps/derive.h"
#include "maps/selected.h"
#include "plan/verify_plan.h"

namespace dcp {
namespace {

// --config, else config.json of the assets or beside the source; "": none.
std::string config_path(const MapRequest& request, Io& io, const MapQuestion& q) {
  if (!request.config.empty()) return request.config;
  for (const std::string& folder : {q.assets, q.catalog.folder}) {
    if (folder.empty()) continue;
    const std::string path = folder + "/config.json";
    const auto facts = io.facts(path);
    if (facts && facts->kind == FileKind::kRegular) return path;
  }
  return {};
}

std::vector<std::string_view> tensor_keys(const Selection& selection) {
  std::vector<std::string_view> keys;
  for (const Entry& e : selection.entries)
    if (!e.is_blob()) keys.push_back(e.key);
  return keys;
}

// The names are those that are published: nothing is moved, and what transformers loads must be there.
void check_published(const maps::Auto& found, const maps::Config& config, maps::ResolveOptions options, const MapQuestion& q,
                     World& world) {
  if (!found.published) return world.events.info("no map: the names are those that are published");
  options.from = maps::Side::kRight;
  MapAnswer answer{.map = *found.published, .made = {}};
  answer.made = maps::resolve_selected(answer.map, config, options, {q.catalog, q.selection}, Limits());
  check_holds(answer, world);
  world.events.info("no map: the names are those that are published, and all that " + std::string(maps::tried_against("transformers")) +
                    " loads is there");
}

}  // namespace

std::vector<TensorId> MapAnswer::sources() const {
  std::set<TensorId> ids;
  const auto add = [&](const IndexMap& m) {
    for (const IndexBlock& b : m.blocks)
      if (b.source != IndexBlock::kZeros) ids.insert(b.source);
  };
  for (const IndexMap& m : made.targets) add(m);
  for (const maps::Tie& t : made.ties) {
    add(t.tensor);
    add(t.same_as);
  }
  return {ids.begin(), ids.end()};
}

std::optional<MapAnswer> ask_map(const MapRequest& request, World& world, const MapQuestion& q) {
  if (request.map.empty()) return {};
  const Limits limits;
  const std::string path = config_path(request, world.io, q);
  maps::Config config;
  if (!path.empty()) config = open_config(path, world.io);
  maps::ResolveOptions options{.settings = request.settings,
                               .from = request.from,
                               .are_published = q.catalog.traits().tensors_only,
                               .unmapped = request.unmapped,
                               .may_mix_dtypes = q.may_mix_dtypes};
  MapAnswer answer;
  if (request.map == "auto") {
    maps::Auto found = maps::auto_map(config.model_type(), path.empty() ? "config.json" : path, tensor_keys(q.selection), limits);
    if (found.maps.empty()) {
      check_published(found, config, options, q, world);
      return {};
    }
    answer.map = std::move(found.maps[0]);
    options.from = maps::Side::kLeft;
  } else {
    answer.map = open_map(request.map, world.io);
  }
  answer.made = maps::resolve_selected(answer.map, std::move(config), options, {q.catalog, q.selection}, limits);
  return answer;
}

void check_holds(const MapAnswer& answer, World& world) {
  const std::vector<Problem>& all = answer.made.problems;
  if (all.empty()) return;
  constexpr size_t kMax = 8;
  for (size_t i = 1; i < all.size() && i < kMax; ++i) world.events.warn(world.events.line_of(all[i]));
  if (all.size() > kMax) world.events.warn("and " + counted(all.size() - kMax, "more problem"));
  throw Error(all[0]);
}

void compare_ties(const MapAnswer& answer, const Source& source, unsigned workers, World& world) {
  const std::vector<maps::Tie>& ties = answer.made.ties;
  if (ties.empty()) return;
  std::vector<IndexMap> all;
  std::set<std::string_view> keys;
  for (const maps::Tie& t : ties)
    for (const IndexMap* m : {&t.tensor, &t.same_as})
      if (keys.insert(m->key).second) all.push_back(*m);
  const Derived derived = derive(source, all);
  const Selection selection = select_keys(derived.catalog, {});
  const VerifyPlan plan = plan_verify({derived.catalog, derived.resolved}, {.digests = &selection, .units = {}});
  DigestSink sink(plan.plan);
  Progress progress;
  const ExecuteReport executed =
      run_digest_units({plan.plan, {derived.catalog, derived.resolved, source.files}, workers}, sink, progress, world);
  if (!executed.damage.empty()) throw Error(executed.damage.front());
  if (!world.leads()) return;
  std::map<std::string_view, std::optional<uint64_t>> digests;
  for (uint32_t f = 0; f < plan.digests.size(); ++f) digests[plan.digests[f].key] = sink.digest(f);
  for (const maps::Tie& t : ties)
    if (digests[t.tensor.key] != digests[t.same_as.key]) throw Error(t.difference);
}

bool is_map_file(const std::string& name) { return name.find('/') != std::string::npos || name.ends_with(".map"); }

maps::ModelMap open_map(const std::string& name, Io& io) {
  const Limits limits;
  if (!is_map_file(name)) return maps::builtin_map(name, limits);
  return maps::read_map(as_text(read_file(io, name, limits.map_bytes)), name, limits);
}

maps::Config open_config(const std::string& path, Io& io) {
  const Limits limits;
  return maps::Config::read(as_text(read_file(io, path, limits.config_bytes)), path, limits);
}

}  // namespace dcp
