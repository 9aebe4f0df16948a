// Decides which steps of a run stay and which go: a pure function of the survey, so that what is shown is what is done.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/run_survey.h"

namespace dcp {

// A step that any rule keeps stays, whatever the other rules say.
struct RetentionRules {
  std::optional<uint64_t> keep_latest;    // keep this many of the highest-numbered complete steps; nullopt: all
  std::optional<uint64_t> keep_every;     // keep steps whose number it divides
  bool partial = false;                   // remove what saves left that were cut short, and what is named like one
  std::optional<uint64_t> older_than_ns;  // keep younger ones
  uint64_t grace_ns = 600'000'000'000;    // an incomplete step changed within this time may still be being written
  bool drop_optimizer = false;            // full steps that would go become model-only instead; no complete step goes
};

enum class Fate : uint8_t { kKeep, kDelete, kDropOptimizer };

struct Decision {
  Fate fate = Fate::kKeep;
  std::string why;
  bool counts = false;  // it stays as one of those that others go for
};

// One decision per step. Whatever the rules say, these stay: the newest complete full step, the newest model-only one, the newest without a
// model; steps that a link or a file of the run leads to, or a link in a step that stays; locked steps, and incomplete ones that just changed; steps that cannot be
// judged; damaged ones; folders that hold more than a checkpoint.
std::vector<Decision> decide(const RunSurvey& run, const RetentionRules& rules, int64_t now_ns);

// Throws whole_steps_lacking if, since some turned out to be damaged, there are fewer whole steps than the rules keep: at least one; or if
// something goes, and none is whole.
void check_enough_whole(const RunSurvey& run, const RetentionRules& rules, bool something_goes);

}  // namespace dcp
