// A checkpoint verified from end to end, as the command does it.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "catalog/structure.h"
#include "exec/digest.h"
#include "exec/execute.h"
#include "inputs/open.h"
#include "items/duplicates.h"
#include "plan/verify_plan.h"

namespace dcp::test {

struct VerifySetup {
  bool data = true;
  double sample_percent = 100;
  bool digests = false;
  unsigned workers = 1;
  UnitOptions units = {};
  Limits limits = {};
};

struct Verified {
  explicit Verified(Io& io, const VerifySetup& setup = {}, const std::string& path = "ckpt")
      : opened(open_checkpoint(io, path, {.limits = setup.limits})), catalog(opened->catalog) {
    add(structure_findings(*opened));
    add(find_overlapping_items(catalog));
    std::vector<TensorId> tensors(catalog.tensors.size());
    std::vector<BlobId> blobs(catalog.blobs.size());
    std::iota(tensors.begin(), tensors.end(), 0u);
    std::iota(blobs.begin(), blobs.end(), 0u);
    DataFiles files(io, catalog, FollowLinks::kCacheOnly);
    const StopFlag stop{0};
    const ResolveOptions options{.workers = setup.workers, .faults = Faults::kCollect, .limits = setup.limits};
    resolved = resolve(files, tensors, blobs, options, stop);
    add(std::move(resolved.findings));
    add(find_differing_duplicates({catalog, resolved}, contents_of(files, catalog, options.limits)));
    VerifyPlanOptions what{.data = setup.data, .sample_percent = setup.sample_percent, .units = setup.units};
    Selection selection;
    if (setup.digests) what.digests = &(selection = select_keys(catalog, {}));
    plan = plan_verify({catalog, resolved}, what);
    add(std::move(plan.findings));
    DigestSink sink(plan.plan);
    Progress progress;
    executed =
        execute(plan.plan, {catalog, resolved, files}, sink, {.workers = setup.workers, .faults = Faults::kCollect}, {progress, stop});
    for (Problem& p : executed.damage) p.severity = Severity::kDamage;
    add(std::move(executed.damage));
    for (const VerifyPlan::Digest& d : plan.digests)
      if (const auto digest = sink.digest(d.file)) digests[std::string(d.entry.key)] = *digest;
    std::ranges::sort(findings, {}, [](const Problem& p) { return to_line(p); });
  }

  void add(std::vector<Problem> more) {
    findings.insert(findings.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  uint64_t damage() const { return static_cast<uint64_t>(std::ranges::count(findings, Severity::kDamage, &Problem::severity)); }
  uint64_t compared() const { return resolved.records_checked + executed.records_checked; }

  FrozenCatalog opened;
  const Catalog& catalog;
  Resolved resolved;
  VerifyPlan plan;
  ExecuteReport executed;
  std::vector<Problem> findings;            // sorted by their lines
  std::map<std::string, uint64_t> digests;  // by key, those that came out
};

}  // namespace dcp::test
