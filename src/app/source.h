// The source of every use case that reads, and how it is opened.
#pragma once

#include <optional>
#include <string>

#include "app/world.h"
#include "inputs/open.h"

namespace dcp {

struct SourceRequest {
  std::string path;
  std::string step;     // a run folder's step: a number, or "latest"; "": `path` is the checkpoint
  std::string pattern;  // which folders of a run are steps, see inputs/run.h
  std::optional<uint32_t> prefer_rank;
  bool follow_links = false;
  bool itself = false;  // not the only checkpoint below it, either
  std::optional<uint64_t> max_pickle;  // bytes; nullopt: the defaults of Limits

  // `memory_bytes`: cap for reading the metadata.
  Limits limits(uint64_t memory_bytes = Limits{}.memory_bytes) const;
  FollowLinks links() const { return follow_links ? FollowLinks::kAll : FollowLinks::kCacheOnly; }
};

// Opens the source, with the sizes of its data files. Notes the steps that `latest` skipped. On several ranks, rank 0 opens it, all get it,
// and all look for its files (RankGroup::share).
FrozenCatalog open_source(const SourceRequest& request, World& world, uint64_t memory_bytes);

// Notes what opening found odd, where nothing else reports it.
void note_warnings(const OpenedCatalog& opened, World& world);

}  // namespace dcp
