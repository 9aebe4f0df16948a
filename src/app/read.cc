#include "app/read.h"

#include <algorithm>

#include "app/memory.h"
#include "app/open_files.h"
#include "app/parts.h"
#include "exec/execute.h"
#include "items/duplicates.h"
#include "maps/derive.h"
#include "plan/layout.h"

namespace dcp {
namespace {

uint64_t cap_of(const ReaderRequest& request) { return peak_rss_bytes() + request.extra_memory; }

void run(const Plan& plan, const Source& source, MutableBytes to, unsigned workers, World& world) {
  if (plan.bytes_to_write != to.size())
    fail(ProblemId::usage, {.path = source.catalog.path}, "a buffer of " + std::to_string(to.size()) + " bytes",
         std::to_string(plan.bytes_to_write));
  BufferSink sink(to);
  Progress progress;
  const ExecuteReport done = execute(plan, source, sink, {.workers = workers}, {progress, world.stop});
  if (!done.damage.empty()) throw Error(done.damage.front());
}

}  // namespace

void BufferSink::write(uint32_t, uint64_t offset, Bytes bytes) { std::ranges::copy(bytes, to_.subspan(offset, bytes.size()).begin()); }

Reader::Reader(ReaderRequest request, World& world) : request_(std::move(request)), world_(world) {
  const uint64_t cap = take_memory_cap(cap_of(request_), world);
  opened_ = open_source(request_.source, world, memory_left(cap));
  files_.emplace(world.store, opened_->catalog, request_.source.links(), open_file_shares().inputs);
}

void Reader::read(const Part& part, MutableBytes to) {
  const uint64_t cap = cap_of(request_);
  const Selection selection = select_key(opened_->catalog, KeyRef::tensor_at(part.tensor), part.dtypes);
  const Entry& entry = selection.entries.front();
  if (selection.casts.kept_packed > 0)
    fail(ProblemId::cast_opaque, {.path = opened_->catalog.path, .tensor = std::string(entry.key)}, "bits of a packed weight");
  const Parts parts = check_selected(*opened_, selection, {.blobs = false});
  const std::vector<bool> only = part.axes ? files_of(opened_->catalog, part.tensor, *part.axes) : std::vector<bool>();
  const unsigned threads = reading_workers(request_.threads, world_, opened_->catalog.path);
  const Resolved resolved = resolve(*files_, parts.tensors, {},
                                    {.workers = threads,
                                     .limits = request_.source.limits(),
                                     .memory_bytes = memory_left(cap),
                                     .memory_cap = cap,
                                     .only_files = part.axes ? &only : nullptr},
                                    world_.stop);
  const Source source{opened_->catalog, resolved, *files_};
  if (!request_.source.prefer_rank) prove_duplicates(source, contents_of(*files_, opened_->catalog, request_.source.limits()));
  const auto run_plan = [&](const Source& from, const Selection& what, bool verify) {
    const Plan plan = plan_arrays(from, what, ArrayForm::kRaw, {.plane_bytes = kMiB, .verify = verify});
    uint64_t planned = 0;
    run(plan, from, to, fit_workers(plan, opened_->catalog.path, cap_of(request_), {.wanted = threads}, planned), world_);
  };
  if (!part.axes) return run_plan(source, selection, true);
  const IndexMap map = map_of(opened_->catalog, part.tensor, *part.axes);
  const Derived derived = derive(source, {&map, 1});
  Selection slice = select_keys(derived.catalog, {});
  slice.entries.front().dtype = entry.dtype;
  run_plan({derived.catalog, derived.resolved, *files_}, slice, false);
}

}  // namespace dcp
