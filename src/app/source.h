// The source of every use case that reads, and how it is opened.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/world.h"
#include "inputs/open.h"

namespace dcp {

struct SourceRequest {
  std::string path;
  std::string step;     // a run folder's step: a number, or "latest"; "": `path` is the checkpoint
  std::string pattern;  // which folders of a run are steps, see inputs/run.h
  std::optional<uint32_t> prefer_rank;
  std::optional<uint32_t> shards_on_dim;  // see OpenOptions
  std::vector<std::string> replicated;
  bool follow_links = false;
  bool itself = false;                 // not the only checkpoint below it, either
  bool show_rest = false;              // see OpenOptions
  std::optional<uint64_t> max_pickle;  // bytes; nullopt: the defaults of Limits

  // `memory_bytes`: cap for reading the metadata.
  Limits limits(uint64_t memory_bytes = Limits{}.memory_bytes) const;
  FollowLinks links() const { return follow_links ? FollowLinks::kAll : FollowLinks::kCacheOnly; }
};

// Opens the source, with the sizes of its data files. Notes the steps that `latest` skipped. On several ranks, rank 0 opens it, all get it,
// and all look for its files (RankGroup::share). Where ranks may have parts of tensors, `shapes_of` is asked for what is known of these.
using ShapesOf = std::function<void(const Catalog&, WholeShapes&)>;
FrozenCatalog open_source(const SourceRequest& request, World& world, uint64_t memory_bytes, const ShapesOf& shapes_of = {});

// Notes what opening found odd, where nothing else reports it.
void note_warnings(const OpenedCatalog& opened, World& world);

}  // namespace dcp
