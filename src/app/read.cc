#include "app/read.h"

#include <algorithm>

#include "app/resources.h"
#include "plan/layout.h"

namespace dcp {

void BufferSink::write(uint32_t, uint64_t offset, Bytes bytes) { std::ranges::copy(bytes, to_.subspan(offset, bytes.size()).begin()); }

CheckpointReader::CheckpointReader(const CheckpointReaderOptions& options, World& world)
    : extra_memory_(options.extra_memory),
      world_(world),
      opened_(open({.source = options.source, .ranks = {}, .threads = options.threads}, take_memory_cap(cap(), world), world)) {}

void CheckpointReader::read(const Request& request, MutableBytes to) {
  Opened opened = opened_;
  opened.memory_cap = cap();
  const Catalog& catalog = opened.catalog();
  Selected selected;
  selected.selection = select_key(catalog, KeyRef::tensor_at(request.tensor), request.dtypes);
  if (selected.selection.casts.kept_packed > 0)
    fail(ProblemId::cast_opaque, {.path = catalog.path, .tensor = std::string(selected.selection.entries.front().key)},
         "bits of a packed weight");
  const Parts parts = check_selected(*opened.found, selected.selection, {.blobs = false});
  std::optional<TensorSlice> part;
  if (request.axes) part = {.tensor = request.tensor, .axes = *request.axes};
  Resolved resolved = resolve(opened, {.parts = parts, .part = part ? &*part : nullptr}, world_);
  compare_copies(opened, resolved, Faults::kThrow, world_);
  const Ready ready = part ? make_part(std::move(opened), selected, std::move(resolved), *part)
                           : make(std::move(opened), selected, std::move(resolved), {});
  const Plan plan = plan_arrays(ready.source(), selected.selection, ArrayForm::kRaw, {.plane_bytes = kMiB, .verify = !part});
  if (plan.bytes_to_write != to.size())
    fail(ProblemId::usage, {.path = catalog.path}, "a buffer of " + std::to_string(to.size()) + " bytes",
         std::to_string(plan.bytes_to_write));
  uint64_t planned = 0;
  BufferSink sink(to);
  execute_or_throw(plan, ready.source(), sink, {.workers = fit(ready.opened, plan, kMiB, world_, planned)}, world_);
}

}  // namespace dcp
