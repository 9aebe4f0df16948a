// CKPT: what every reading command takes, and how it is opened.
#pragma once

#include <optional>

#include "catalog/open.h"
#include "context.h"

namespace dcp::cmd {

struct SourceFlags {
  std::string path;
  std::string step;     // a run folder's step: a number, or "latest"
  std::string pattern;  // which folders of a run are steps
  std::optional<uint32_t> prefer_rank;
  bool follow_links = false;
  std::string max_pickle;  // "": the defaults of Limits

  // `memory_bytes`: that reading the metadata may take.
  Limits limits(uint64_t memory_bytes = Limits{}.memory_bytes) const;
  FollowLinks links() const { return follow_links ? FollowLinks::kAll : FollowLinks::kCacheOnly; }
};
void add_source(Command& command, Context& context, SourceFlags& flags);

// As --json names it: "dcp".
std::string_view kind_name(CheckpointKind kind);

// The catalog, with the sizes of its data files. Steps that `latest` passed over are named on stderr.
// `memory_bytes`: that reading the metadata may take.
Catalog open_source(const SourceFlags& flags, const Context& context, uint64_t memory_bytes = Limits{}.memory_bytes);
// The same on several ranks: rank 0 opens it, all get it, and all look for its files (Crew::share).
Catalog open_together(const SourceFlags& flags, const Context& context, uint64_t memory_bytes = Limits{}.memory_bytes);

}  // namespace dcp::cmd
