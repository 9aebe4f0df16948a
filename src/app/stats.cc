#include "app/stats.h"

#include <algorithm>
#include <map>
#include <utility>

#include "catalog/structure.h"
#include "exec/execute.h"
#include "plan/layout.h"
#include "select/globs.h"

namespace dcp {
namespace {

// Why the tensor cannot be read, or nothing.
std::optional<Problem> fault_of(const Catalog& catalog, const Tensor& t) {
  try {
    check_whole(catalog, t);
  } catch (const Error& e) {
    return e.problem();
  }
  return std::nullopt;
}

class Collector {
 public:
  Collector(const Catalog& catalog, StatsResult& result) : catalog_(catalog), result_(result) {}

  // The tensors that may be read.
  std::vector<TensorId> list(const Selection& selection) {
    std::vector<TensorId> wanted;
    for (const Entry& e : selection.entries) {
      if (e.is_blob()) {
        ++result_.objects;
        continue;
      }
      const Tensor& t = catalog_.tensors[e.tensor()];
      KeyStats k{.key = std::string(e.key), .dtype = t.dtype, .shape = catalog_.shape(t), .stats = {}, .fault = fault_of(catalog_, t)};
      k.has_numbers = t.dtype_known && has_numbers(t.dtype);
      if (k.has_numbers && !k.fault) wanted.push_back(e.tensor());
      at_.emplace(catalog_.key(e.ref), result_.tensors.size());
      result_.tensors.push_back(std::move(k));
    }
    return wanted;
  }

  KeyStats& of(std::string_view key) { return result_.tensors[at_.at(std::string(key))]; }
  void blame(Problem p) {
    const auto found = at_.find(p.place.tensor);
    if (found != at_.end() && !result_.tensors[found->second].fault) result_.tensors[found->second].fault = std::move(p);
  }

 private:
  const Catalog& catalog_;
  StatsResult& result_;
  std::map<std::string, size_t, std::less<>> at_;  // by key of the source, in result_.tensors
};

}  // namespace

void stats(const StatsRequest& request, World& world, StatsResult& result) {
  const Opened opened = open(request.read, begin_reading(request.read, world), world);
  const Catalog& saved = opened.catalog();
  note_warnings(*opened.found, world);
  result.checkpoint = saved.path;
  Selected selected = select(opened, request.select, {}, world);
  std::vector<Entry>& entries = selected.selection.entries;
  result.unmatched = selected.selection.unmatched;
  std::erase_if(entries, [&](const Entry& e) { return !glob_matches(request.glob, e.key); });
  Collector found(saved, result);
  ResolveRequest wanted{.parts = {.tensors = found.list(selected.selection), .blobs = {}}, .faults = Faults::kCollect};
  const std::vector<TensorId>& tensors = wanted.parts.tensors;
  std::optional<TensorSlice> part;
  if (request.slice && !tensors.empty())
    part = {.tensor = tensors.front(), .axes = request.slice->of(saved.dims(saved.tensors[tensors.front()]))};
  if (request.slice) wanted.faults = Faults::kThrow;
  if (part) wanted.part = &*part;
  Resolved resolved = resolve(opened, wanted, world);
  for (Problem& p : std::exchange(resolved.findings, {})) found.blame(std::move(p));
  for (const TensorId t : tensors)
    if (is_opaque(opened.with(resolved), t)) found.of(saved.key(saved.tensors[t])).has_numbers = false;
  std::erase_if(entries, [&](const Entry& e) {
    if (e.is_blob()) return true;
    const KeyStats& k = found.of(saved.key(e.ref));
    return !k.has_numbers || k.fault;
  });
  if (entries.empty()) return;
  std::vector<KeyStats*> by_file;
  for (const Entry& e : entries) by_file.push_back(&found.of(saved.key(e.ref)));
  const Ready ready =
      part ? make_part(opened, selected, std::move(resolved), *part) : make(opened, selected, std::move(resolved), request.select);

  const Source source = ready.source();
  const Plan plan = plan_arrays(source, selected.selection, ArrayForm::kRaw, {.verify = !request.slice});
  std::vector<DType> dtypes;
  for (const KeyStats* k : by_file) dtypes.push_back(k->dtype);
  StatsSink sink(plan, dtypes, source);
  uint64_t planned = 0;
  const unsigned workers = fit(opened, plan, kMiB, world, planned);
  Progress progress;
  ExecuteReport done;
  {
    const auto display = world.events.show(progress, progress.bytes_read, plan.bytes_to_read);
    done = execute(plan, source, sink, {.workers = workers, .faults = Faults::kCollect, .supply = &sink}, {progress, world.stop});
  }
  sink.finish();
  for (size_t f = 0; f < by_file.size(); ++f) {
    by_file[f]->stats = sink.of(static_cast<uint32_t>(f));
    if (request.slice) by_file[f]->shape = source.catalog.shape(source.catalog.tensors[entries[f].tensor()]);
  }
  for (Problem& p : done.damage) found.blame(std::move(p));
  result.bytes_read = source.resolved.bytes_read + done.bytes_read;
}

}  // namespace dcp
