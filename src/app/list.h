// The steps of a run, or the newest one of a kind; and waiting until there is one.
#pragma once

#include <optional>
#include <string>

#include "app/run_survey.h"

namespace dcp {

struct ListRequest {
  SurveyRequest survey;
  bool newest_only = false;            // older steps than the answer are not looked at
  std::optional<StepContent> content;  // of the newest
  std::optional<uint64_t> after;       // it must have a greater number
  bool after_newest = false;           // than the newest such step has now
  std::optional<uint64_t> wait_ns;     // for it
};

struct ListResult {
  RunSurvey survey;                 // unless newest_only
  std::optional<StepFacts> newest;  // complete, of the content, with a greater number
};

// Throws what survey_run throws.
void list_steps(const ListRequest& request, World& world, ListResult& result);

}  // namespace dcp
