// Steps of a run in text and JSON, which list and prune share.
#pragma once

#include <cstdint>
#include <string>

#include "app/run_survey.h"
#include "base/json.h"
#include "line/command.h"
#include "line/context.h"

namespace dcp::cmd {

struct RunFlags {
  std::string run, pattern, max_memory;
  bool follow_links = false;
  unsigned threads = 0;

  // Throws usage.
  SurveyRequest request() const;
};
// RUN and how its steps are found. `access`: what the command does with it.
void add_run(Command& command, Context& context, RunFlags& flags, Access access);

// Since the epoch.
int64_t wall_clock_ns();
// "-" of an unfinished one whose name has none.
std::string number_text(const StepFacts& step);
// "45 s", "5 min", "3 h", "12 d"; a time in the future is "0 s"; without one, "-".
std::string age_text(const StepFacts& step, int64_t now);
// "2026-11-25 23:42:07", of where the program runs.
std::string date_text(const StepFacts& step);
enum class Seconds : uint8_t { kWithUnit, kWithoutUnit };  // where 7 may be meant as days, it takes a unit
// 90s, 10min, 12h, 7d, 2w, and 0: nanoseconds. Throws usage.
uint64_t parse_duration(const std::string& text, const char* option, Seconds seconds);

std::string_view content_name(StepContent content);  // "full"; "" if unknown
// What is wrong with the checkpoint at `path`, without that path.
std::string fault_text(const Problem& fault, const std::string& path);
// "complete", "unfinished: .distcp files but no .metadata".
std::string state_text(const StepFacts& step);
// Opens an object and leaves it open.
void step_json(JsonWriter& json, const StepFacts& step);

}  // namespace dcp::cmd
