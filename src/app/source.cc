#include "app/source.h"

#include <algorithm>

#include "app/ranked_run.h"
#include "app/whole_shapes.h"
#include "base/text.h"
#include "catalog/structure.h"
#include "catalog/torch_files.h"
#include "inputs/run.h"

namespace dcp {

Limits SourceRequest::limits(uint64_t memory_bytes) const {
  Limits limits{.memory_bytes = memory_bytes};
  constexpr uint64_t kMax = uint64_t{1} << 56;  // 16 times as much, and sums with that, stay in 64 bits
  if (max_pickle)
    limits.blob_bytes = limits.decoded_bytes = limits.item_pickle_bytes = limits.archive_pickle_bytes = std::min(*max_pickle, kMax);
  return limits;
}

namespace {

OpenedCatalog read_from(Store& store, const SourceRequest& request, World& world, uint64_t memory_bytes, const ShapesOf& shapes_of) {
  OpenOptions options{.limits = request.limits(memory_bytes),
                      .links = request.links(),
                      .prefer_rank = request.prefer_rank,
                      .shards_on_dim = request.shards_on_dim,
                      .replicated = request.replicated,
                      .whole_shapes = {},
                      .show_rest = request.show_rest};
  std::string path = request.path;
  if (!request.step.empty()) {
    std::vector<Step> broken;
    const auto announce = [&] {
      for (const Step& s : broken) world.events.info("skipped: " + world.events.line_of(*s.broken));
    };
    try {
      path = find_step(store, {request.path, request.step, request.pattern}, options, broken);
    } catch (const Error& e) {
      if (e.problem().id == ProblemId::step_in_parts) announce();
      throw;
    }
    announce();
    world.events.info("step: " + escaped(path));
  }
  if (const auto only = request.itself ? std::nullopt : only_checkpoint_below(store, path)) {
    world.events.info("checkpoint: " + escaped(*only) + ", the only one in that folder");
    path = *only;
  }
  OpenedCatalog opened = read_checkpoint(store, path, options);
  const Catalog& catalog = opened.catalog;
  const bool has_parts = catalog.traits().of_ranks && catalog.traits().in_torch_files;
  if (request.shards_on_dim && has_parts) {
    // verl and SkyRL write the latter.
    options.whole_shapes = shapes_by_config(catalog, {catalog.folder + "/config.json", catalog.folder + "/huggingface/config.json"}, store);
    if (shapes_of) shapes_of(catalog, options.whole_shapes);
    if (!options.whole_shapes.empty()) opened = read_checkpoint(store, path, options);
  }
  if (request.shards_on_dim && !has_parts)
    world.events.info(world.events.name_of("shards_on_dim") +
                      " has nothing to join: the checkpoint is no folder of torch.save files of ranks");
  if (auto finding = catalog.single_file ? std::nullopt : unfinished_by_name(catalog.folder))
    opened.findings.push_back(std::move(*finding));
  if (request.prefer_rank && !catalog.traits().of_ranks)
    world.events.info(world.events.name_of("prefer_rank") + " has nothing to choose from: every key was written once");
  if (catalog.traits().in_torch_files && catalog.torch->odd_keys.count > 0)
    world.events.info("keys of dicts that are neither text nor integers become text: " + counted(catalog.torch->odd_keys.count, "key") +
                      ", such as " + escaped(catalog.torch->odd_keys.example));
  return opened;
}

}  // namespace

FrozenCatalog open_source(const SourceRequest& request, World& world, uint64_t memory_bytes, const ShapesOf& shapes_of) {
  if (!world.ranks) return freeze(read_from(world.store, request, world, memory_bytes, shapes_of), world.store, request.links());
  RankGroup& group = world.ranks->group;
  const std::unique_ptr<Store> more = request.step.empty() ? group.gather_remote_metadata(world.store, request.path) : nullptr;
  OpenedCatalog mine;
  if (group.leads()) mine = read_from(more ? *more : world.store, request, world, memory_bytes, shapes_of);
  return group.share(std::move(mine), world.store, request.links());
}

void note_warnings(const OpenedCatalog& opened, World& world) {
  for (const Problem& p : opened.findings)
    if (p.severity == Severity::kWarning) world.events.info(world.events.line_of(p));
}

}  // namespace dcp
