// CKPT and the options of every command that reads one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/requests.h"
#include "line/context.h"

namespace dcp::cmd {

struct Option;

struct SourceFlags {
  std::string path;
  std::string step;     // a run folder's step: a number, or "latest"
  std::string pattern;  // which folders of a run are steps
  std::optional<uint32_t> prefer_rank, shards_on_dim;
  std::vector<std::string> replicated;
  bool follow_links = false;
  std::string max_pickle;  // "": the defaults of Limits

  SourceRequest request() const;
};
void add_source(Command& command, Context& context, SourceFlags& flags);
// --pattern
Option& add_pattern(Command& command, std::string& pattern, const std::string& group);

// --max-memory of commands that only read.
void add_max_memory(Command& command, std::string& max_memory, const std::string& group);
uint64_t reading_cap(const std::string& max_memory);

// -j, --threads
void add_threads(Command& command, unsigned& threads, const std::string& group);

}  // namespace dcp::cmd
