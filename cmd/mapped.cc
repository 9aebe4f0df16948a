#include "mapped.h"

#include <algorithm>
#include <set>

#include "digest_units.h"
#include "maps/builtin.h"
#include "maps/derive.h"
#include "maps/selected.h"
#include "plan/verify_plan.h"

namespace dcp::cmd {
namespace {

// --config, else config.json of the assets or beside the source; "": none.
std::string config_path(const MapFlags& flags, const Context& context, const MapQuestion& q) {
  if (!flags.config.empty()) return flags.config;
  for (const std::string& folder : {q.assets, q.catalog.folder}) {
    if (folder.empty()) continue;
    const std::string path = folder + "/config.json";
    const auto facts = context.io.facts(path);
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

std::optional<MapAnswer> ask_map(const MapFlags& flags, const Context& context, const MapQuestion& q) {
  if (flags.map.empty()) return {};
  const Limits limits;
  const std::string path = config_path(flags, context, q);
  maps::Config config;
  if (!path.empty()) config = open_config(path, context);
  maps::ResolveOptions options{.settings = flags.settings(),
                               .from = flags.from,
                               .are_published = q.catalog.kind == CheckpointKind::kHf || q.catalog.kind == CheckpointKind::kSafetensors,
                               .unmapped = flags.unmapped,
                               .may_mix_dtypes = q.may_mix_dtypes};
  MapAnswer answer;
  if (flags.map == "auto") {
    maps::Auto found = maps::auto_map(config.model_type(), path.empty() ? "config.json" : path, tensor_keys(q.selection), limits);
    if (found.maps.empty()) {
      context.note("no map: the names are those that are published");
      return {};
    }
    answer.map = std::move(found.maps[0]);
    options.from = maps::Side::kLeft;
  } else {
    answer.map = open_map(flags.map, context);
  }
  answer.made = maps::resolve_selected(answer.map, std::move(config), options, q.catalog, q.selection, limits);
  return answer;
}

void check_holds(const MapAnswer& answer, const Context& context) {
  const std::vector<Problem>& all = answer.made.problems;
  if (all.empty()) return;
  constexpr size_t kMost = 8;
  for (size_t i = 1; i < all.size() && i < kMost; ++i) context.complain(to_line(all[i]));
  if (all.size() > kMost) context.complain("and " + counted(all.size() - kMost, "more problem"));
  throw Error(all[0]);
}

void describe(const MapAnswer& answer, const Context& context) {
  const maps::Resolved& made = answer.made;
  context.note("by the map " + escaped(answer.map.name) + ", from its " + std::string(maps::name_of(made.from)) + " side");
  for (const std::string& n : made.notes) context.note("note: " + escaped(n));
  if (!made.left_out.empty()) context.note("left out by the map: " + counted(made.left_out.size(), "tensor"));
  if (!made.not_made.empty()) context.note("not made, since nothing here holds it: " + list_of(made.not_made));
}

void map_json(JsonWriter& out, const MapAnswer& answer) {
  const maps::Resolved& made = answer.made;
  out.key("map").begin_object().member("name", answer.map.name).member("from", maps::name_of(made.from));
  out.member("tensors", uint64_t{made.targets.size()}).member("left_out", uint64_t{made.left_out.size()});
  text_json(out, "not_made", made.not_made);
  text_json(out, "notes", made.notes);
  out.end_object();
}

void compare_ties(const MapAnswer& answer, const Catalog& source, const Resolved& resolved, DataFiles& files, unsigned workers,
                  Context& context) {
  const std::vector<maps::Tie>& ties = answer.made.ties;
  if (ties.empty()) return;
  std::vector<IndexMap> all;
  std::set<std::string_view> keys;
  for (const maps::Tie& t : ties)
    for (const IndexMap* m : {&t.tensor, &t.same_as})
      if (keys.insert(m->key).second) all.push_back(*m);
  const Derived derived = derive(source, resolved, all);
  const Selection selection = select_keys(derived.catalog, {});
  const VerifyPlan plan = plan_verify(derived.catalog, derived.resolved, {.digests = &selection, .units = {}});
  DigestSink sink(plan.plan);
  Progress progress;
  const ExecuteReport executed = run_digest_units(plan.plan, derived.catalog, derived.resolved, files, sink, workers, progress, context);
  if (!executed.damage.empty()) throw Error(executed.damage.front());
  if (context.together && !context.together->crew.leads()) return;
  std::map<std::string_view, std::optional<uint64_t>> digests;
  for (uint32_t f = 0; f < plan.digests.size(); ++f) digests[plan.digests[f].key] = sink.digest(f);
  for (const maps::Tie& t : ties)
    if (digests[t.tensor.key] != digests[t.same_as.key]) throw Error(t.difference);
}

}  // namespace dcp::cmd
