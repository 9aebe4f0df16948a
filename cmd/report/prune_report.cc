#include "report/prune_report.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/json.h"
#include "base/text.h"
#include "line/lines.h"
#include "line/problem_words.h"
#include "report/list_report.h"
#include "report/step_text.h"

namespace dcp::cmd {
namespace {

std::string_view fate_name(Fate fate) {
  switch (fate) {
    case Fate::kKeep: return "keep";
    case Fate::kDelete: return "delete";
    case Fate::kDropOptimizer: return "drop-optimizer";
  }
  return "";
}

// The data that is read before anything goes.
void print_reading(const PruneResult& found, const Context& context) {
  std::string steps, before;
  const auto add = [&](std::string& list, size_t s) { list += (list.empty() ? "" : ", ") + escaped(found.survey.steps[s].name); };
  for (const size_t s : found.to_read) add(steps, s);
  for (size_t s = 0; s < found.looks.size(); ++s)
    if (found.looks[s].data_before) add(before, s);
  if (!steps.empty())
    context.print(fitted(context,
                         "before anything goes, the data files of " + steps + " are read: " + human_bytes(found.bytes_to_read()) + "\n",
                         STDOUT_FILENO));
  if (!before.empty()) context.print("read whole by an earlier run, and unchanged: " + before + "\n");
}

// What hard links keep on the disk: "; 259.0 KiB stay, since their files have other names (hard links)".
std::string shared_text(const PruneResult& found) {
  uint64_t stays = 0;
  for (size_t s = 0; s < found.survey.steps.size(); ++s)
    if (found.decisions[s].fate == Fate::kDelete) stays += found.survey.steps[s].bytes - found.frees[s];
  return stays == 0 ? "" : "; " + human_bytes(stays) + " stay, since their files have other names (hard links)";
}

}  // namespace

void print_plan(const PruneResult& found, PlanShown shown, const Context& context) {
  const RunSurvey& run = found.survey;
  if (run.steps.empty()) return print_steps(run, {}, context);  // says what was found
  const int64_t now = wall_clock_ns();
  print_table(context, {false, true, false, true, true, false, false}, LongNames::kOwnLine, [&](const std::function<void(Cells)>& row) {
    if (context.at_terminal(STDOUT_FILENO)) row({"fate", "step", "folder", "age", "bytes", "kind", "why"});
    for (size_t s = 0; s < run.steps.size(); ++s) {
      const StepFacts& step = run.steps[s];
      row({std::string(fate_name(found.decisions[s].fate)), number_text(step), escaped(step.name), age_text(step, now),
           human_bytes(step.bytes), std::string(content_name(step.content)), found.decisions[s].why});
    }
  });
  uint64_t steps = 0, deleted = 0, dropped = 0, unfinished = 0, partial = 0, partial_bytes = 0;
  for (size_t s = 0; s < run.steps.size(); ++s) {
    const bool is_step = run.steps[s].state != StepState::kUnfinished;
    const Fate fate = found.decisions[s].fate;
    const bool stays_cut = fate == Fate::kKeep && run.steps[s].not_alone.empty() && (!is_step || run.steps[s].state == StepState::kCut);
    if (stays_cut) ++partial, partial_bytes += run.steps[s].bytes_of_its_own;
    steps += is_step, deleted += is_step && fate == Fate::kDelete, dropped += fate == Fate::kDropOptimizer;
    unfinished += !is_step && fate == Fate::kDelete;
  }
  const char* what = dropped == 0 ? " to delete" : deleted + unfinished == 0 ? " to make model-only" : " to delete or make model-only";
  if (partial > 0 && !shown.partial)
    context.print("--partial deletes what " + counted(partial, "interrupted save") + " left, too: " + human_bytes(partial_bytes) +
                  ", once nothing in it has changed for --grace\n");
  if (!found.has_work()) return context.print(escaped(run.run) + ": nothing to delete\n");
  context.print(fitted(context,
                       escaped(run.run) + ": " + std::to_string(deleted + dropped) + " of " + counted(steps, "step") +
                           (unfinished > 0 ? " and " + counted(unfinished, "unfinished save") : "") + what + ", freeing " +
                           human_bytes(found.to_free()) + shared_text(found) +
                           (shown.is_carried_out ? "" : "; this is a plan, --yes carries it out") + "\n",
                       STDOUT_FILENO));
  print_reading(found, context);
}

bool agrees(const PruneResult& found, Context& context) {
  const bool on_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && !context.common.json;
  if (!on_terminal) {
    throw Error(with_hint(make_problem(ProblemId::usage, {.path = found.survey.run}, "no --yes, and no terminal to ask on"),
                          "--dry-run shows the plan, --yes carries it out"));
  }
  context.print("continue? [y/N] ");
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return true;
  context.info("nothing was changed");
  return false;
}

void print_done(const PruneResult& found, const Context& context) {
  uint64_t deleted = 0, dropped = 0, unfinished = 0;
  for (size_t s = 0; s < found.done.size(); ++s) {
    if (found.done[s] != Done::kYes) continue;
    const bool is_step = found.survey.steps[s].state != StepState::kUnfinished;
    ++(!is_step ? unfinished : found.decisions[s].fate == Fate::kDelete ? deleted : dropped);
  }
  std::string text;
  const auto add = [&](uint64_t count, const char* of, const char* what) {
    if (count > 0) text += (text.empty() ? "" : ", ") + counted(count, of) + what;
  };
  add(deleted, "step", " deleted");
  add(unfinished, "unfinished save", " deleted");
  add(dropped, "step", " made model-only");
  add(found.failed.size(), "step", " damaged and left alone");
  if (text.empty()) return;
  context.print(text + "; " + human_bytes(found.freed) + " freed\n");
}

void prune_json(const PruneResult& found, bool dry_run, int exit, const std::function<void(std::string_view)>& write) {
  JsonWriter json(write);
  json.begin_object().member("schema", "dcpctl.prune/1").member("exit", exit).member("path", found.survey.run).member("dry_run", dry_run);
  json.member("bytes_to_free", found.to_free()).member("bytes_freed", found.freed).member("bytes_to_read", found.bytes_to_read());
  json.key("steps").begin_array();
  for (size_t s = 0; s < found.survey.steps.size(); ++s) {
    step_json(json, found.survey.steps[s]);
    json.member("fate", fate_name(found.decisions[s].fate)).member("why", found.decisions[s].why);
    const StepLook& look = found.looks[s];
    if (look.heads) json.member("checked", look.data || look.data_before ? "data" : "headers");
    if (look.data_before) json.member("read_before", true);
    json.member("frees", found.frees[s]).member("done", found.done[s] == Done::kYes);
    if (const auto failed = found.failed.find(s); failed != found.failed.end()) error_json(json.key("error"), failed->second);
    json.end_object();
  }
  json.end_array().end_object();
  json.finish();
}

}  // namespace dcp::cmd
