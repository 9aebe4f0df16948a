#include "report/list_report.h"

#include <unistd.h>

#include <algorithm>
#include <span>

#include "app/retention.h"
#include "base/json.h"
#include "base/text.h"
#include "inputs/open.h"
#include "line/lines.h"
#include "report/fields.h"
#include "report/page/page.h"
#include "report/step_text.h"

namespace dcp::cmd {
namespace {

// "complete, the newest full one, latest".
std::string standing(const RunSurvey& run, size_t s) {
  const StepFacts& step = run.steps[s];
  std::string text = state_text(step);
  const auto add = [&](const std::string& more) { text += ", " + more; };
  if (run.newest() == s) add("the newest");
  if (run.newest(StepContent::kFull) == s) add("the newest full one");
  if (run.newest(StepContent::kModel) == s) add("the newest model-only one");
  for (const RunPointer& p : run.pointers)
    if (p.step == s) add((p.is_link ? "linked as '" : "named by '") + escaped(p.name) + "'");
  return text;
}

std::optional<std::string> path_of(const RunSurvey& run, std::optional<size_t> step) {
  return step ? std::optional(run.steps[*step].path) : std::nullopt;
}

// Another program's checkpoint, by the words that refuse it.
Problem what_is(const std::string& folder, const Context& context) try {
  read_checkpoint(context.store, folder, {});
  return {};
} catch (const Error& e) {
  return e.problem().id == ProblemId::not_checkpoint && e.problem().remedy == Remedy::kOfId ? e.problem() : Problem{};
}

void print_none(const RunSurvey& run, const Context& context) {
  constexpr size_t kMax = 10;
  const std::string rule = "a step is a folder with a checkpoint and a number in its name, such as step-1000";
  if (run.checkpoints.empty()) {
    const Problem p = what_is(run.run, context);
    const bool is_known = !p.got.empty() && !p.hint.empty();
    context.print(escaped(run.run) + ": no steps (" + (is_known ? "it holds " + escaped(p.got) + ": " + escaped(p.hint) : rule) + ")\n");
    return;
  }
  context.print(escaped(run.run) + ": " + counted(run.checkpoints.size(), "checkpoint") + ", in folders that are not named like steps (" +
                rule + ")\n");
  for (size_t c = 0; c < run.checkpoints.size() && c < kMax; ++c) context.print("  " + escaped(run.checkpoints[c]) + "\n");
  if (run.checkpoints.size() > kMax) context.print("  and " + std::to_string(run.checkpoints.size() - kMax) + " more\n");
}

// "resume from: run/step-20 (full, 22 min ago)": what a trainer goes on from takes its optimizer, too.
std::string answer(const RunSurvey& run, int64_t now) {
  const auto described = [&](size_t s) {
    const StepFacts& step = run.steps[s];
    const std::string_view content = content_name(step.content);
    const std::string age = step.modified_ns == 0 ? "" : age_text(step, now) + " ago";
    return escaped(step.path) + " (" + std::string(content) + (content.empty() || age.empty() ? "" : ", ") + age + ")";
  };
  if (const auto full = run.to_resume()) return "resume from: " + described(*full);
  const auto newest = run.newest();
  return escaped(run.run) + ": no " + (newest ? "full step to resume from, the newest is " + described(*newest) : "step to resume from");
}

// What contradicts it: behind the answer, and in lines of its own.
struct Contradictions {
  std::string behind, others;
};

Contradictions contradictions(const RunSurvey& run) {
  Contradictions text;
  for (const RunPointer& p : run.pointers) {
    if (p.wrong.empty()) continue;
    const std::string wrong = "'" + escaped(p.name) + "' " + p.wrong;
    if (p.is_latest) text.behind += "; " + wrong;
    else text.others += "warning: " + wrong + "\n";
  }
  if (!run.beside.empty())
    text.others += "checkpoints that are no steps by their names, and are left alone: " + list_of(run.beside, 10) + "\n";
  return text;
}

// The answer first, and whatever contradicts it.
std::string answer_line(const RunSurvey& run, int64_t now) {
  const auto complete = static_cast<size_t>(std::ranges::count(run.steps, StepState::kComplete, &StepFacts::state));
  uint64_t bytes = 0;
  for (const StepFacts& s : run.steps) bytes += s.bytes;
  std::string text = answer(run, now) + "; ";
  if (complete < run.steps.size()) text += std::to_string(run.steps.size() - complete) + " of ";
  text += counted(run.steps.size(), "step") + (complete < run.steps.size() ? " unusable" : "");
  return text + contradictions(run).behind + "; " + human_bytes(bytes) + " in all\n";
}

// With the commands that show them: of the newest steps 1, 2, 3, 5 and so on stay.
void plans(JsonWriter& json, const RunSurvey& run, int64_t now) {
  const auto plan = [&](const std::string& rules_text, const RetentionRules& rules) {
    const std::vector<Decision> all = decide(run, rules, now);
    uint64_t bytes = 0, gone = 0;
    std::vector<int> fates;
    std::vector<std::string> why;
    for (size_t s = 0; s < all.size(); ++s) {
      fates.push_back(static_cast<int>(all[s].fate));
      why.push_back(escaped(all[s].why));
      if (all[s].fate != Fate::kDelete) continue;
      ++gone;
      bytes += run.steps[s].bytes_of_its_own;
    }
    if (gone == 0) return;
    json.begin_object().member("command", "dcpctl prune " + escaped(run.run) + " " + rules_text).member("fates", fates).member("why", why);
    json.member("text", counted(gone, "step") + " would go, " + human_bytes(bytes) + "; before that, prune checks those that stay")
        .end_object();
  };
  json.key("plans").begin_array();
  plan("--partial", {.partial = true});
  for (const unsigned keep : {1u, 2u, 3u, 5u, 10u, 20u}) plan("--keep-latest " + std::to_string(keep), {.keep_latest = keep});
  json.end_array();
}

}  // namespace

void print_steps(const RunSurvey& run, StepsShown shown, const Context& context) {
  if (run.steps.empty()) return print_none(run, context);
  const int64_t now = wall_clock_ns();
  context.print(fitted(context, answer_line(run, now) + contradictions(run).others, STDOUT_FILENO));
  const size_t count = std::min(shown.last, run.steps.size());
  std::vector<bool> right{true, false, true, true, false, false};
  if (shown.dates) right.insert(right.begin() + 2, false);
  print_table(context, right, LongNames::kOwnLine, [&](const std::function<void(Cells)>& row) {
    if (context.at_terminal(STDOUT_FILENO)) {
      Cells head{"step", "folder", "age", "bytes", "kind", "state"};
      if (shown.dates) head.insert(head.begin() + 2, "written");
      row(std::move(head));
    }
    for (size_t i = 0; i < count; ++i) {
      const size_t s = shown.newest_first ? run.steps.size() - 1 - i : run.steps.size() - count + i;
      const StepFacts& step = run.steps[s];
      Cells cells{
          number_text(step), escaped(step.name), age_text(step, now), human_bytes(step.bytes), std::string(content_name(step.content)),
          standing(run, s)};
      if (shown.dates) cells.insert(cells.begin() + 2, date_text(step));
      row(std::move(cells));
    }
  });
}

std::string list_html(const RunSurvey& run) {
  const int64_t now = wall_clock_ns();
  const auto full = run.to_resume(), newest = run.newest();
  uint64_t bytes = 0;
  for (const StepFacts& s : run.steps) bytes += s.bytes;
  const std::string answer_text = answer_line(run, now);
  PageHead head{.command = "dcpctl list",
                .title = escaped(run.run),
                .verdict = answer_text.substr(0, answer_text.size() - 1),
                .tone = full     ? "good"
                        : newest ? "warn"
                                 : "bad"};
  if (head.verdict.starts_with(head.title + ": ")) head.verdict.erase(0, head.title.size() + 2);
  const auto count = [&](std::string_view word, std::string_view tone) {
    const auto is_so = [&](const StepFacts& step) { return word_of(step) == word; };
    const auto n = static_cast<uint64_t>(std::ranges::count_if(run.steps, is_so));
    if (n > 0) head.cards.push_back({.label = std::string(word), .value = grouped(n), .tone = tone});
  };
  if (newest)
    head.cards.push_back({.label = "newest complete step",
                          .value = std::to_string(run.steps[*newest].number),
                          .note = age_text(run.steps[*newest], now) + " old"});
  count("complete", "good");
  count("unfinished", "warn");
  count("damaged", "bad");
  count("cannot be read", "bad");
  head.cards.push_back({.label = "bytes", .value = human_bytes(bytes)});
  for (const RunPointer& p : run.pointers)
    head.cards.push_back({.label = p.is_link ? "link" : "file",
                          .value = escaped(p.name),
                          .note = !p.wrong.empty() ? p.wrong
                                  : p.step         ? "step " + std::to_string(run.steps[*p.step].number)
                                                   : "",
                          .tone = p.wrong.empty() ? "" : "warn"});
  return page_html(head, [&](JsonWriter& json) {
    if (run.steps.empty()) return;
    json.begin_object().member("type", "steps").key("steps").begin_array();
    for (size_t s = 0; s < run.steps.size(); ++s) {
      const StepFacts& step = run.steps[s];
      json.begin_object().member("number", step.number).member("name", escaped(step.name)).member("path", escaped(step.path));
      json.member("state", word_of(step)).member("content", content_name(step.content)).member("standing", standing(run, s));
      json.member("bytes", step.bytes).member("files", step.files);
      if (step.modified_ns != 0) json.member("date", date_text(step));
      json.end_object();
    }
    json.end_array();
    plans(json, run, now);
    json.end_object();
  });
}

void print_steps_csv(const RunSurvey& run, size_t last, const Context& context) {
  print_csv_head({"step", "path", "state", "content", "bytes", "files", "modified", "what is wrong"}, context);
  for (const StepFacts& s : std::span(run.steps).last(std::min(last, run.steps.size())))
    context.print(
        csv_row({std::to_string(s.number), s.path, std::string(word_of(s)), std::string(content_name(s.content)), std::to_string(s.bytes),
                 std::to_string(s.files), s.modified_ns == 0 ? "" : date_text(s), s.fault ? fault_text(*s.fault, s.path) : ""}));
}

void list_rows(const RunSurvey& run, size_t last, const FieldFlags& fields, const Context& context) {
  const FieldRows rows(fields, kListFields, context);
  const int64_t now = wall_clock_ns();
  for (const StepFacts& s : std::span(run.steps).last(std::min(last, run.steps.size())))
    rows.add([&](std::string_view field) -> FieldValue {
      if (field == "step") return s.number;
      if (field == "path") return s.path;
      if (field == "name") return s.name;
      if (field == "state") return std::string(word_of(s));
      if (field == "content") return std::string(content_name(s.content));
      if (field == "bytes") return s.bytes;
      if (field == "files") return s.files;
      if (field == "wrong") return s.fault ? FieldValue(fault_text(*s.fault, s.path)) : FieldValue();
      if (s.modified_ns == 0) return {};
      return field == "modified" ? FieldValue(date_text(s)) : FieldValue((now - s.modified_ns) / 1'000'000'000);
    });
}

void list_json(const ListResult& found, size_t last, int exit, const std::function<void(std::string_view)>& write) {
  const RunSurvey& run = found.survey;
  const int64_t now = wall_clock_ns();
  json_document(write, [&](JsonWriter& json) {
    json.member("schema", "dcpctl.list/1").member("exit", exit).member("path", run.run);
    if (!run.checkpoints.empty()) json.member("checkpoints", run.checkpoints);
    if (!run.beside.empty()) json.member("beside", run.beside);
    json.member("latest", path_of(run, run.newest())).member("latest_full", path_of(run, run.to_resume()));
    json.member("latest_model", path_of(run, run.newest(StepContent::kModel)));
    json.key("steps").begin_array();
    for (const StepFacts& s : std::span(run.steps).last(std::min(last, run.steps.size()))) {
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
    json.end_array();
  });
}

}  // namespace dcp::cmd
