// The steps of a run, as text and as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "app/run_survey.h"
#include "line/context.h"
#include "report/fields.h"

namespace dcp::cmd {

struct StepsShown {
  bool newest_first = false;
  size_t last = SIZE_MAX;  // so many of the newest
  bool dates = false;      // beside ages
};
void print_steps(const RunSurvey& run, StepsShown shown, const Context& context);
void print_steps_csv(const RunSurvey& run, size_t last, const Context& context);
// A page: the run over time, and what `prune` would take of it.
std::string list_html(const RunSurvey& run);
inline const std::vector<std::string_view> kListFields{"step",  "path",  "name",     "state",       "content",
                                                       "bytes", "files", "modified", "age_seconds", "wrong"};
void list_rows(const RunSurvey& run, size_t last, const FieldFlags& fields, const Context& context);
void list_json(const ListResult& found, size_t last, int exit, const std::function<void(std::string_view)>& write);

}  // namespace dcp::cmd
