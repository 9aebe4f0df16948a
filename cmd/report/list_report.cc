#include "report/list_report.h"

#include <algorithm>

#include "base/json.h"
#include "base/quantity.h"
#include "line/lines.h"
#include "report/step_text.h"

namespace dcp::cmd {
namespace {

// "complete, the newest full one, latest".
std::string standing(const RunSurvey& run, size_t s) {
  const StepFacts& step = run.steps[s];
  std::string text = step.state == StepState::kComplete ? "complete" : step.state == StepState::kLocked ? "" : "not complete: ";
  text += fault_text(step);
  const auto add = [&](const std::string& more) { text += ", " + more; };
  if (run.newest() == s) add("the newest");
  if (run.newest(StepContent::kFull) == s) add("the newest full one");
  if (run.newest(StepContent::kModel) == s) add("the newest model-only one");
  for (const RunPointer& p : run.pointers)
    if (p.step == s) add((p.is_link ? "linked as '" : "named by '") + escaped(p.name) + "'");
  return text;
}

void path_json(JsonWriter& json, std::string_view name, const RunSurvey& run, std::optional<size_t> step) {
  json.key(name);
  if (step) json.value(run.steps[*step].path);
  else json.null();
}

void print_none(const RunSurvey& run, const Context& context) {
  constexpr size_t kMax = 10;
  const std::string rule = "a step is a folder with a checkpoint and a number in its name, such as step-1000";
  if (run.checkpoints.empty()) return context.print(escaped(run.run) + ": no steps (" + rule + ")\n");
  context.print(escaped(run.run) + ": " + counted(run.checkpoints.size(), "checkpoint") + ", in folders that are not named like steps (" +
                rule + ")\n");
  for (size_t c = 0; c < run.checkpoints.size() && c < kMax; ++c) context.print("  " + escaped(run.checkpoints[c]) + "\n");
  if (run.checkpoints.size() > kMax) context.print("  and " + std::to_string(run.checkpoints.size() - kMax) + " more\n");
}

}  // namespace

void print_steps(const RunSurvey& run, const Context& context) {
  if (run.steps.empty()) return print_none(run, context);
  const auto complete = std::ranges::count(run.steps, StepState::kComplete, &StepFacts::state);
  uint64_t bytes = 0;
  for (const StepFacts& s : run.steps) bytes += s.bytes;
  const auto unfinished = static_cast<size_t>(std::ranges::count(run.steps, StepState::kUnfinished, &StepFacts::state));
  context.print(escaped(run.run) + ": " + counted(run.steps.size() - unfinished, "step") + ", " + std::to_string(complete) + " complete" +
                (unfinished > 0 ? ", and " + counted(unfinished, "unfinished save") : "") + "; " + human_bytes(bytes) + "\n");
  const int64_t now = wall_clock_ns();
  print_table(context, {true, false, true, true, false, false}, LongNames::kOwnLine, [&](const std::function<void(Cells)>& row) {
    for (size_t s = 0; s < run.steps.size(); ++s) {
      const StepFacts& step = run.steps[s];
      row({std::to_string(step.number), escaped(step.name), age_text(step, now), human_bytes(step.bytes),
           std::string(content_name(step.content)), standing(run, s)});
    }
  });
  for (const RunPointer& p : run.pointers)
    if (!p.wrong.empty())
      context.print("warning: '" + escaped(p.name) + "'" + (p.says.empty() ? "" : " says '" + escaped(p.says) + "'") + ": " + p.wrong +
                    "\n");
}

void list_json(const ListResult& found, int exit, const std::function<void(std::string_view)>& write) {
  const RunSurvey& run = found.survey;
  const int64_t now = wall_clock_ns();
  JsonWriter json(write);
  json.begin_object().member("schema", "dcpctl.list/1").member("exit", exit).member("path", run.run);
  if (!run.checkpoints.empty()) json.member("checkpoints", run.checkpoints);
  path_json(json, "latest", run, run.newest());
  path_json(json, "latest_full", run, run.newest(StepContent::kFull));
  path_json(json, "latest_model", run, run.newest(StepContent::kModel));
  json.key("steps").begin_array();
  for (const StepFacts& s : run.steps) {
    step_json(json, s);
    if (s.modified_ns != 0) json.member("age_seconds", (now - s.modified_ns) / 1'000'000'000);
    json.end_object();
  }
  json.end_array().key("pointers").begin_array();
  for (const RunPointer& p : run.pointers) {
    json.begin_object().member("name", p.name).member("kind", p.is_link ? "link" : "file");
    if (!p.is_link) json.member("says", p.says);
    if (p.step) json.member("step", run.steps[*p.step].number);
    if (!p.wrong.empty()) json.member("wrong", p.wrong);
    json.end_object();
  }
  json.end_array().end_object();
  json.finish();
}

}  // namespace dcp::cmd
