#include "app/model_sums.h"

#include <algorithm>

#include "app/parts.h"
#include "exec/execute.h"
#include "files/sink.h"
#include "plan/dcp_layout.h"

namespace dcp {

SelectOptions model_under_root() { return {.rules = {}, .model_only = true, .keep_root = true}; }

void check_model_sums(const ReadRequest& request, World& world) {
  Preparation source(request, world);
  const OpenedCatalog& opened = source.open();
  const Selection selection = source.select(model_under_root(), {}, "");
  const Parts parts = check_selected(opened, selection, {.any_tensor = true});
  source.resolve(parts.tensors, parts.blobs, Faults::kThrow, BlobUse::kPickles);
  DcpLayoutOptions layout{.limits = {},
                          .units = {},
                          .world_size = std::max<uint32_t>(ranks_shown(opened.catalog), 1),
                          .mesh = {},
                          .rules = {},
                          .source_boxes = true};
  const Plan plan = plan_dcp(source.source(), selection, layout);
  uint64_t planned = 0;
  NoSink sink;
  Progress progress;
  const ExecuteReport done = execute(plan, source.source(), sink, {.workers = source.fit(plan, kMiB, planned)}, {progress, world.stop});
  for (size_t i = 1; i < done.damage.size(); ++i) world.events.warn(world.events.line_of(done.damage[i]));
  if (!done.damage.empty()) throw Error(done.damage.front());
}

}  // namespace dcp
