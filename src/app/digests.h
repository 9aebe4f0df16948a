// Digests of a checkpoint's content, and their comparison with a manifest.
#pragma once

#include <string>
#include <vector>

#include "app/world.h"
#include "exec/digest.h"
#include "exec/execute.h"
#include "format/manifest.h"
#include "plan/verify_plan.h"

namespace dcp {

struct DigestWork {
  const Plan& plan;
  Source source;
  unsigned workers = 1;
};

// Reads and sums tensors without writing anything, in this process alone or on several ranks. The report lists what cannot be read. With several
// ranks, each does the units whose bytes it sees; rank 0 gathers digests and findings.
ExecuteReport run_digest_units(const DigestWork& work, DigestSink& sink, Progress& progress, World& world);

// Covers the keys whose content was read completely; any other is already a finding.
Manifest manifest_of(const Catalog& catalog, const VerifyPlan& plan, const DigestSink& sink, const std::vector<FileSum>& files);
Manifest read_manifest_file(const std::string& path, Store& store);
// `found` is manifest_of the plan's digests: keys of the plan that it lacks are not reported again.
ManifestComparison compare_with(Manifest expected, const Manifest& found, const VerifyPlan& plan, const Catalog& catalog, Subset subset);

}  // namespace dcp
