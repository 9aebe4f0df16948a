// Lists the steps of a run, or finds the newest one of a kind, waiting for it if asked.
#pragma once

#include <optional>
#include <string>

#include "app/run_survey.h"

namespace dcp {

struct ListRequest {
  SurveyRequest survey;
  bool newest_only = false;            // do not look at steps older than the answer
  std::optional<StepContent> content;  // of the newest
  std::optional<uint64_t> after;       // its number must be greater
  bool after_newest = false;           // greater than that of the newest such step now
  std::optional<uint64_t> wait_ns;     // for it
};

struct ListResult {
  RunSurvey survey;                 // unless newest_only
  std::optional<StepFacts> newest;  // complete, of the content, with a greater number
};

// Throws what survey_run throws.
void list_steps(const ListRequest& request, World& world, ListResult& result);

}  // namespace dcp
