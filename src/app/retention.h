// Which steps of a run stay and which go: a pure function of what is there, so that what is shown is what is done.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/run_survey.h"

namespace dcp {

// A step that one of these keeps stays, whatever the others say.
struct RetentionRules {
  std::optional<uint64_t> keep_latest;    // of complete steps the last so many numbers; nullopt: all
  std::optional<uint64_t> keep_every;     // numbers that it divides
  bool partial = false;                   // steps go that an interrupted save has left
  std::optional<uint64_t> older_than_ns;  // nothing younger goes
  uint64_t grace_ns = 600'000'000'000;    // an incomplete step that was changed since may be being written
  bool drop_optimizer = false;            // what would go and is full becomes model-only, and nothing that is complete goes
};

enum class Fate : uint8_t { kKeep, kDelete, kDropOptimizer };

struct Decision {
  Fate fate = Fate::kKeep;
  std::string why;
};

// One for each step. Whatever the rules say, these stay: the newest complete full step, the newest model-only one, the newest without a
// model; what a link or a tracker file of the run leads to; what is locked, or incomplete and just changed; what cannot be judged; what is
// more than a checkpoint's own folder.
std::vector<Decision> decide(const RunSurvey& run, const RetentionRules& rules, int64_t now_ns);

}  // namespace dcp
