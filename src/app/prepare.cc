#include "app/prepare.h"

#include <algorithm>

#include "app/memory.h"
#include "app/open_files.h"
#include "catalog/duplicates.h"
#include "maps/selected.h"
#include "plan/layout.h"

namespace dcp {
namespace {

uint64_t join_and_cap(const ReadRequest& request, World& world) {
  join_ranks(request.ranks, world);
  return take_memory_cap(request.max_memory, world);
}

}  // namespace

Preparation::Preparation(const ReadRequest& request, World& world) : request_(request), world_(world), cap_(join_and_cap(request, world)) {}

const Catalog& Preparation::open() {
  source_ = open_source(request_.source, world_, memory_left(cap_));
  check_transport(request_.ranks, world_, source_);
  const OpenFileShares shares = open_file_shares();
  files_.emplace(world_.io, source_, request_.source.links(), shares.inputs);
  open_outputs_ = shares.outputs;
  return source_;
}

Selection Preparation::select(const SelectOptions& options, const MapRequest& map, const std::string& assets) {
  if (!map.is_given()) return select_keys(source_, options);
  Selection selection = select_keys(source_, maps::before_map(options));
  map_ = ask_map(map, world_,
                 {.catalog = source_, .selection = selection, .assets = assets, .may_mix_dtypes = options.dtypes.dtype.has_value()});
  if (!map_) return select_keys(source_, options);  // the names are the published ones
  check_holds(*map_, world_);
  return selection;
}

Selection Preparation::make(const SelectOptions& options, Selection before) {
  if (part_) return make_part(std::move(before));
  if (!map_) return before;
  derived_ = derive({source_, resolved_}, map_->made.targets);
  return maps::select_mapped(derived_->catalog, options, std::move(before));
}

void Preparation::take_part(const Subscript& slice, TensorId tensor) {
  const Tensor& t = source_.tensors[tensor];
  part_ = {.tensor = tensor, .axes = slice.of(source_.dims(t)), .files = {}};
  part_->files = files_of(source_, tensor, part_->axes);
}

void Preparation::refuse_opaque_part() const {
  if (!is_opaque({source_, resolved_}, part_->tensor)) return;
  Problem p =
      make_problem(ProblemId::cast_opaque, {.path = source_.path, .tensor = std::string(source_.key(source_.tensors[part_->tensor]))},
                   "one that is quantized or a subclass");
  p.what = "only plain tensors have elements that stand for themselves";
  p.hint = "a .pt file holds it whole";
  throw Error(std::move(p));
}

Selection Preparation::make_part(Selection before) {
  refuse_opaque_part();
  const IndexMap map = map_of(source_, part_->tensor, part_->axes);
  derived_ = derive({source_, resolved_}, {&map, 1});
  Selection selection = select_keys(derived_->catalog, {});
  selection.entries.front().dtype = before.entries.front().dtype;
  selection.casts = before.casts;
  return selection;
}

void Preparation::compare_ties(unsigned workers) {
  if (map_) dcp::compare_ties(*map_, {source_, resolved_, *files_}, workers, world_);
}

void Preparation::resolve(std::span<const TensorId> tensors, std::span<const BlobId> blobs, Faults faults, BlobUse use) {
  const ResolveOptions options{.workers = wanted_workers(request_.threads, world_.ranks != nullptr),
                               .faults = faults,
                               .blobs = use,
                               .limits = request_.source.limits(),
                               .memory_bytes = memory_left(cap_),
                               .memory_cap = cap_,
                               .only_files = part_ ? &part_->files : nullptr};
  resolved_ = resolve_together(world_, *files_, tensors, blobs, options);
}

std::vector<Problem> Preparation::compare_copies(Faults faults) {
  if (request_.source.prefer_rank) return {};
  const ContentOf contents = contents_together(world_, {source_, resolved_, *files_}, request_.source.limits());
  if (!world_.leads()) return {};
  if (faults == Faults::kCollect) return find_differing_duplicates({source_, resolved_}, contents);
  prove_duplicates({source_, resolved_}, contents);
  return {};
}

void Preparation::check_same_plan(const Plan& plan) const {
  if (world_.ranks) world_.ranks->group.check_same_plan(plan);
}

unsigned Preparation::fit(const Plan& plan, uint64_t min_bytes, uint64_t& planned_memory) const {
  const uint64_t min = std::max(min_bytes, world_.ranks ? Exchange::worker_bytes(plan) : 0);
  const unsigned wanted = wanted_workers(request_.threads, world_.ranks != nullptr);
  return fit_workers(plan, request_.source.path, cap_, {.wanted = wanted, .min_bytes = min}, planned_memory);
}

}  // namespace dcp
