#include "app/prepare.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "app/memory.h"
#include "app/open_files.h"
#include "catalog/state_dict.h"
#include "items/duplicates.h"
#include "maps/apply_map.h"
#include "maps/derive.h"
#include "maps/run_state.h"
#include "pickle/graph.h"
#include "plan/layout.h"

namespace dcp {
namespace {

uint64_t join_and_cap(const ReadRequest& request, World& world) {
  join_ranks(request.ranks, world);
  return take_memory_cap(request.max_memory, world);
}

}  // namespace

Preparation::Preparation(const ReadRequest& request, World& world) : request_(request), world_(world), cap_(join_and_cap(request, world)) {}

const OpenedCatalog& Preparation::open(const ShapesOf& shapes_of) {
  opened_ = open_source(request_.source, world_, memory_left(cap_), shapes_of);
  check_transport(request_.ranks, world_, opened_->catalog);
  const OpenFileShares shares = open_file_shares();
  files_.emplace(world_.store, opened_->catalog, request_.source.links(), shares.inputs);
  open_outputs_ = shares.outputs;
  return *opened_;
}

SelectOptions Preparation::with_kept(SelectOptions options) const {
  options.dtypes.keeps_float32 = keeps_;
  return options;
}

Selection Preparation::select(const SelectOptions& options, const MapRequest& map, const std::string& assets, bool has_run) {
  const std::optional<DType> dtype = options.dtypes.dtype;
  const bool may_fit = !map.is_given() && !map.is_declined && has_config(assets, world_.store) && options.add_root.empty();
  if (!map.is_given() && !may_fit) {
    if (dtype) keeps_ = kept_by_family(map.config, {assets, opened_->catalog.folder}, *dtype, world_.store);
    return select_keys(opened_->catalog, with_kept(options));
  }
  Selection selection = select_keys(opened_->catalog, maps::before_map(options));
  const MapQuestion question{.catalog = opened_->catalog,
                             .selection = selection,
                             .assets = assets,
                             .dtype = dtype,
                             .has_run = has_run && !options.model_only && options.root.empty(),
                             .memory_bytes = memory_left(cap_)};
  AskedMap asked = may_fit ? ask_fitting_map(map, world_, question) : ask_map(map, world_, question);
  map_ = std::move(asked.answer);
  keeps_ = std::move(asked.keeps);
  // Under another root the names are again those of the whole.
  if (!asked.published.is_text_part || options.add_root.empty()) published_ = std::move(asked.published);
  if (!map_) return select_keys(opened_->catalog, with_kept(options));  // the names are the published ones
  check_holds(*map_, world_);
  return selection;
}

Selection Preparation::make(const SelectOptions& options, Selection before) {
  if (part_) return make_part(std::move(before));
  if (!map_) return before;
  derived_ = derive({opened_->catalog, resolved_}, map_->made.targets);
  if (map_->run) add_objects({opened_->catalog, resolved_}, *map_->run, *derived_);
  return maps::select_mapped(derived_->catalog, with_kept(options), std::move(before), map_->objects());
}

void Preparation::take_part(const Subscript& slice, TensorId tensor) {
  const Tensor& t = opened_->catalog.tensors[tensor];
  part_ = {.tensor = tensor, .axes = slice.of(opened_->catalog.dims(t)), .files = {}};
  part_->files = files_of(opened_->catalog, tensor, part_->axes);
}

void Preparation::refuse_opaque_part() const { refuse_opaque({opened_->catalog, resolved_}, part_->tensor); }

Selection Preparation::make_part(Selection before) {
  refuse_opaque_part();
  const IndexMap map = map_of(opened_->catalog, part_->tensor, part_->axes);
  derived_ = derive({opened_->catalog, resolved_}, {&map, 1});
  Selection selection = select_keys(derived_->catalog, {});
  selection.entries.front().dtype = before.entries.front().dtype;
  selection.casts = before.casts;
  return selection;
}

void Preparation::keep_made(const std::function<bool(const std::string&)>& keep) {
  std::erase_if(map_->made.targets, [&](const IndexMap& m) { return !keep(m.key); });
  std::erase_if(map_->made.ties, [&](const maps::Tie& t) { return !keep(t.tensor.key); });
}

void Preparation::compare_ties(unsigned workers) {
  if (map_) dcp::compare_ties(*map_, {opened_->catalog, resolved_, *files_}, workers, world_);
}

ResolveOptions Preparation::resolve_options(Faults faults, BlobUse use) const {
  return {.workers = reading_workers(request_.threads, world_, request_.source.path),
          .faults = faults,
          .blobs = use,
          .limits = request_.source.limits(),
          .memory_bytes = memory_left(cap_),
          .memory_cap = cap_,
          .only_files = part_ ? &part_->files : nullptr};
}

void Preparation::resolve(std::span<const TensorId> tensors, std::span<const BlobId> blobs, Faults faults, BlobUse use) {
  resolved_ = resolve_together(world_, *files_, tensors, blobs, resolve_options(faults, use));
}

std::vector<BlobId> Preparation::weights_among(std::vector<BlobId> blobs, const TrainingState& state) {
  const auto kind = [&](BlobId b) { return state.weights_in(opened_->catalog, b); };
  std::erase_if(blobs, [&](BlobId b) { return kind(b) == Weights::kNot; });
  if (blobs.empty()) return {};
  const Resolved found = resolve_together(world_, *files_, {}, blobs, resolve_options(Faults::kCollect, BlobUse::kPickles));
  std::set<ItemId> items;
  for (const ItemRecord& r : found.records)
    if (r.is_data) items.insert(r.item);
  const auto item_of = [&](BlobId b) { return found.first_of(opened_->catalog.item_of(b)); };
  std::vector<BlobId> weights, doubtful;
  for (const BlobId b : blobs)
    if (items.contains(item_of(b))) (kind(b) == Weights::kAny ? weights : doubtful).push_back(b);
  if (doubtful.empty()) return weights;
  // Few hold tensors: their pickles say how.
  const Resolved read = resolve_together(world_, *files_, {}, doubtful, resolve_options(Faults::kThrow, BlobUse::kPickles));
  const Limits limits = request_.source.limits();
  for (const BlobId b : doubtful)
    if (const auto blob = read.blobs.find(read.first_of(opened_->catalog.item_of(b)));
        blob != read.blobs.end() &&
        holds_tensors_in_own_way(PickleGraph(blob->second.item.pickle, {.path = opened_->catalog.path}, limits), limits))
      weights.push_back(b);
  return weights;
}

std::vector<Problem> Preparation::compare_copies(Faults faults) {
  if (request_.source.prefer_rank) return {};
  const ContentOf contents = contents_together(world_, {opened_->catalog, resolved_, *files_}, request_.source.limits());
  if (!world_.leads()) return {};
  if (faults == Faults::kCollect) return find_differing_duplicates({opened_->catalog, resolved_}, contents);
  prove_duplicates({opened_->catalog, resolved_}, contents);
  return {};
}

void Preparation::check_same_plan(const Plan& plan) const {
  if (world_.ranks) world_.ranks->group.check_same_plan(plan);
}

unsigned Preparation::fit(const Plan& plan, uint64_t min_bytes, uint64_t& planned_memory) const {
  const uint64_t min = std::max(min_bytes, world_.ranks ? Exchange::worker_bytes(plan) : 0);
  const unsigned wanted = reading_workers(request_.threads, world_, request_.source.path);
  return fit_workers(plan, request_.source.path, cap_, {.wanted = wanted, .min_bytes = min}, planned_memory);
}

}  // namespace dcp
