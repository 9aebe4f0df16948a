// Removes steps of a run that are no longer needed, by rules (retention.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "app/retention.h"

namespace dcp {

struct PruneRequest {
  SurveyRequest survey;
  RetentionRules rules;
  int64_t now_ns = 0;  // since the epoch
  bool dry_run = false;
  bool sync = true;
};

// What happened to a step that was to be removed.
enum class Done : uint8_t { kNothing, kYes, kChanged, kFailed };  // kChanged: changed meanwhile, so it stays; kFailed: damaged, and stays

struct PruneResult {
  RunSurvey survey;
  std::vector<Decision> decisions;   // of each step
  std::vector<Done> done;            // of each step
  std::vector<uint64_t> frees;       // bytes, of each step: files with another name elsewhere free nothing
  std::map<size_t, Problem> failed;  // steps whose optimizer could not be dropped, and why
  uint64_t freed = 0;                // bytes

  uint64_t to_free() const;  // bytes
  bool has_work() const;
};

// `confirmed` is called once it is decided which steps go; if it returns false, none do. The oldest step goes first; one that turns out to
// be damaged stays, and the others go on. Throws what survey_run throws, and what removing throws: earlier steps are then gone, and of the
// failed one either its metadata or nothing.
void prune(const PruneRequest& request, World& world, PruneResult& result, const std::function<bool()>& confirmed);

}  // namespace dcp
