#include "app/mapped.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "app/digests.h"
#include "app/stages.h"
#include "base/text.h"
#include "maps/builtin.h"
#include "maps/derive.h"
#include "plan/verify_plan.h"

namespace dcp {

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

std::vector<BlobId> MapAnswer::objects() const {
  std::set<BlobId> ids;
  if (run)
    for (const maps::ObjectMap& o : run->objects) {
      ids.insert(o.same.begin(), o.same.end());
      if (o.each_of) ids.insert(*o.each_of);
    }
  return {ids.begin(), ids.end()};
}

void check_holds(const maps::Mapping& made, World& world) {
  const std::vector<Problem>& all = made.problems;
  if (all.empty()) return;
  constexpr size_t kMax = 8;
  for (size_t i = 1; i < all.size() && i < kMax; ++i) world.events.warn(world.events.line_of(all[i]));
  if (all.size() > kMax) world.events.warn("and " + counted(all.size() - kMax, "more problem"));
  throw Error(all[0]);
}

void compare_ties(const std::vector<maps::Tie>& ties, const Source& source, unsigned workers, World& world) {
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
  for (const VerifyPlan::Digest& d : plan.digests) digests[d.entry.key] = sink.digest(d.file);
  for (const maps::Tie& t : ties)
    if (digests[t.tensor.key] != digests[t.same_as.key]) throw Error(t.difference);
}

bool is_map_file(const std::string& name) { return name.find('/') != std::string::npos || name.ends_with(".map"); }

maps::ModelMap open_map(const std::string& name, Store& store) {
  const Limits limits;
  if (!is_map_file(name)) return maps::builtin_map(name, limits);
  return maps::read_map(as_text(read_file(store, name, limits.map_bytes)), name, limits);
}

}  // namespace dcp
