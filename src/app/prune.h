// Removes steps of a run that are no longer needed, by rules (retention.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "app/retention.h"

namespace dcp {

// What is checked, before anything goes, of steps that others go for. Their structure and the heads of their items, and the data of
enum class CheckKept : uint8_t {
  kNewest,  // the newest full one, or the newest where none is full
  kAll,     // all complete steps that stay
  kNothing  // nothing is checked, heads neither
};

struct PruneRequest {
  SurveyRequest survey;
  RetentionRules rules;
  CheckKept check = CheckKept::kNewest;
  int64_t now_ns = 0;  // since the epoch
  bool dry_run = false;
  bool sync = true;
};

// What happened to a step that was to be removed.
enum class Done : uint8_t { kNothing, kYes, kChanged, kFailed };  // kChanged: changed meanwhile, so it stays; kFailed: damaged, and stays

// What was looked at of a step that stays.
struct StepLook {
  bool heads = false, data = false;
  bool data_before = false;  // by an earlier run, and its files are still the same
  uint64_t bytes = 0;        // that reading its data reads: objects and heads of items, too
};

struct PruneResult {
  RunSurvey survey;
  std::vector<Decision> decisions;   // of each step
  std::vector<StepLook> looks;       // of each step
  std::vector<size_t> to_read;       // steps whose data is to be read before anything goes, oldest first
  std::vector<Done> done;            // of each step
  std::vector<uint64_t> frees;       // bytes, of each step: files with another name elsewhere free nothing
  std::map<size_t, Problem> failed;  // steps whose optimizer could not be dropped, and why
  uint64_t freed = 0;                // bytes

  uint64_t to_free() const;        // bytes
  uint64_t bytes_to_read() const;  // of to_read
  bool has_work() const;
};

// `confirmed` is called once it is decided which steps go; if it returns false, none do. A step that counts and turns out to be damaged stays,
// and the next older takes its place; if the data shows that, `confirmed` is called again. The oldest step goes first; one that is to lose its
// optimizer and turns out to be damaged stays, and the others go on. Throws what survey_run throws; whole_steps_lacking; and what removing
// throws: earlier steps are then gone, and of the failed one either its metadata or nothing.
void prune(const PruneRequest& request, World& world, PruneResult& result, const std::function<bool()>& confirmed);

}  // namespace dcp
