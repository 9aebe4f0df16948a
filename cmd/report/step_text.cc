#include "report/step_text.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "base/file_names.h"
#include "base/text.h"
#include "line/network.h"
#include "line/problem_words.h"
#include "line/sandbox.h"
#include "request/source.h"

namespace dcp::cmd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

std::string_view state_name(StepState state) {
  switch (state) {
    case StepState::kComplete: return "complete";
    case StepState::kLocked: return "writing";
    case StepState::kCut:
    case StepState::kBroken:
    case StepState::kUnmarked: return "incomplete";
    case StepState::kUnfinished: return "unfinished";
    case StepState::kDamaged: return "damaged";
    case StepState::kUnclear: return "unclear";
  }
  return "";
}

}  // namespace

SurveyRequest RunFlags::request() const {
  return {.run = run, .pattern = pattern, .follow_links = follow_links, .max_memory = reading_cap(max_memory), .threads = threads};
}

void add_run(Command& c, Context& context, RunFlags& f, Access access) {
  const std::string group = "Source";
  c.argument("RUN", f.run, "A folder whose folders are checkpoints, with the number of a step in their names")
      .opens(access)
      .offers(Offer::kFolders)
      .is_required();
  add_pattern(c, f.pattern, group);
  c.flag("--follow-links", f.follow_links, "Follow symbolic links inside the checkpoints").opens(Access::kEverywhere).in(group);
  add_threads(c, f.threads, group);
  add_max_memory(c, f.max_memory, group);
  add_sandbox(c, context);
  add_network(c, context);
}

int64_t wall_clock_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string number_text(const StepFacts& step) { return last_integer(step.name) ? std::to_string(step.number) : "-"; }

std::string age_text(const StepFacts& step, int64_t now) {
  if (step.modified_ns == 0) return "-";
  constexpr int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  const int64_t s = std::max<int64_t>(now - step.modified_ns, 0) / kSecond;
  if (s < 2 * kMinute) return std::to_string(s) + " s";
  if (s < 2 * kHour) return std::to_string(s / kMinute) + " min";
  if (s < 2 * kDay) return std::to_string(s / kHour) + " h";
  return std::to_string(s / kDay) + " d";
}

// In UTC: the zone of the machine is in a file that the sandbox does not open.
std::string date_text(const StepFacts& step) {
  if (step.modified_ns == 0) return "-";
  const auto seconds = static_cast<time_t>(step.modified_ns / kSecond);
  tm t{};
  ::gmtime_r(&seconds, &t);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02d %02d:%02d:%02dZ", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min,
                t.tm_sec);
  return text;
}

uint64_t parse_duration(const std::string& text, const char* option, Seconds seconds) {
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {{"", 1},     {"s", 1},     {"m", 60},    {"min", 60},
                                                              {"h", 3600}, {"d", 86400}, {"w", 604800}};
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  constexpr uint64_t kMax = uint64_t{100} * 366 * 86400;  // a century
  const bool has_unit = !unit.empty() || number == 0 || seconds == Seconds::kWithoutUnit;
  for (const auto& [name, factor] : kUnits)
    if (error == std::errc{} && has_unit && name == unit && number <= kMax / factor)
      return number * factor * static_cast<uint64_t>(kSecond);
  fail(ProblemId::usage, {}, std::string(option) + " '" + text + "'", "a time such as 90s, 10min, 12h, 7d or 2w");
}

std::string_view content_name(StepContent content) {
  switch (content) {
    case StepContent::kFull: return "full";
    case StepContent::kNoOptimizer: return "no optimizer";
    case StepContent::kModel: return "model-only";
    case StepContent::kState: return "no model";
    case StepContent::kUnknown: break;
  }
  return "";
}

std::string fault_text(const Problem& fault, const std::string& path) {
  Problem p = worded(fault);
  if (p.id == ProblemId::not_checkpoint && !p.got.empty()) return escaped(p.got);
  if (p.place.path.starts_with(path)) p.place.path.erase(0, std::min(p.place.path.size(), path.size() + 1));
  std::string text = to_line(p);
  if (p.place.path.empty() && text.starts_with(": ")) text.erase(0, 2);
  return text;
}

std::string state_text(const StepFacts& step) {
  std::string text(word_of(step));
  if (step.state == StepState::kLocked) return text + ": a dcpctl is writing it";
  if (!step.fault) return text;
  return text + ": " + fault_text(*step.fault, step.path) +
         (step.more_faults > 0 ? ", and " + counted(step.more_faults, "more finding") : "");
}

void step_json(JsonWriter& json, const StepFacts& step) {
  json.begin_object().member("step", step.number).member("path", step.path).member("state", state_name(step.state));
  if (step.content != StepContent::kUnknown)
    json.member("content", step.content == StepContent::kState ? "state" : content_name(step.content));
  json.member("bytes", step.bytes).member("files", step.files);
  if (step.modified_ns != 0) json.member("modified", static_cast<double>(step.modified_ns / 1'000'000) / 1e3);
  if (step.is_link) json.member("link", true);
  if (!step.parts.empty()) json.member("parts", step.parts);
  if (!step.fault) return;
  finding_json(json.key("fault"), *step.fault);
  if (step.more_faults > 0) json.member("more_faults", step.more_faults);
}

}  // namespace dcp::cmd
