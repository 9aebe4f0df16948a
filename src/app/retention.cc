#include "app/retention.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/problem.h"
#include "base/text.h"

namespace dcp {
namespace {

class Judge {
 public:
  Judge(const RunSurvey& run, const RetentionRules& rules, int64_t now_ns) : run_(run), rules_(rules), now_ns_(now_ns) {
    for (size_t s = run.steps.size(); s-- > 0;)
      if (run.steps[s].state == StepState::kComplete && latest_.size() < rules.keep_latest.value_or(0)) latest_.insert(run.steps[s].number);
    std::optional<uint64_t> marked;
    for (const StepFacts& s : run.steps) {
      if (s.state == StepState::kComplete) marked = s.number;
      if (s.state == StepState::kUnmarked && marked) marks_.insert(*marked);
    }
    if (rules.keep_every) stand_in();
    for (const StepContent content :
         {StepContent::kFull, StepContent::kNoOptimizer, StepContent::kModel, StepContent::kState, StepContent::kUnknown})
      if (const auto newest = run.newest(content)) newest_.insert({content, run.steps[*newest].number});
  }

  Decision of(size_t s) const {
    const StepFacts& step = run_.steps[s];
    std::string why = why_kept(step);
    for (const RunPointer& p : run_.pointers)
      if (why.empty() && p.step == s) why = "'" + escaped(p.name) + "' leads to it";
    for (const StepFacts& other : run_.steps)
      if (why.empty() && other.is_link && &other != &step && other.id == step.id) why = "'" + escaped(other.name) + "' leads to it";
    if (why.empty()) why = narrowed(step);
    if (!why.empty()) return {Fate::kKeep, std::move(why), counts(step)};
    if (step.state != StepState::kComplete) return {Fate::kDelete, std::string(word_of(step))};
    if (!rules_.drop_optimizer) return {Fate::kDelete, "no rule keeps it"};
    if (step.content != StepContent::kFull) return {Fate::kKeep, "there is no optimizer to drop"};
    if (!traits_of(step.kind).drops_state) return {Fate::kKeep, "only a DCP folder can drop its optimizer"};
    if (!step.parts.empty()) return {Fate::kKeep, "its parts lie in folders of their own: without one it would look unfinished"};
    return {Fate::kDropOptimizer, "no rule keeps it"};
  }

 private:
  // The next older whole step of each damaged one that keep_every would keep.
  void stand_in() {
    std::optional<uint64_t> whole;
    for (const StepFacts& s : run_.steps) {
      if (s.state == StepState::kComplete) whole = s.number;
      if (is_every(s) && word_of(s) == "damaged" && whole) instead_.emplace(*whole, s.number);
    }
  }

  static std::string minutes_ago(uint64_t ns) {
    const uint64_t minutes = ns / 60'000'000'000;
    return minutes == 0 ? "just now" : std::to_string(minutes) + " min ago: it may be being written";
  }

  std::string why_kept(const StepFacts& step) const {
    switch (step.state) {
      case StepState::kLocked: return "unfinished: a dcpctl is writing it";
      case StepState::kUnclear: return std::string(word_of(step)) + ", and cannot be judged";
      case StepState::kUnmarked: return "unfinished: it lacks what an older step has";
      case StepState::kBroken:
      case StepState::kDamaged: return "damaged: kept, and not counted";
      case StepState::kCut:
      case StepState::kUnfinished:
        if (!rules_.partial) return std::string(word_of(step));
        if (const uint64_t age = age_at(step.touched_ns); age < rules_.grace_ns)
          return std::string(word_of(step)) + ", and changed " + minutes_ago(age);
        if (step.content == StepContent::kFull && !run_.newest(StepContent::kFull))
          return "unfinished, with an optimizer that no complete step has";
        if (step.state == StepState::kUnfinished) return {};  // its number is not yet that of a step
        break;
      case StepState::kComplete:
        if (newest_.contains({step.content, step.number})) return newest_text(step.content);
        if (!rules_.keep_latest) return "complete";
        if (latest_.contains(step.number)) return "one of the latest";
        if (marks_.contains(step.number)) return "it has what a newer step lacks";
    }
    if (is_every(step)) return "every " + std::to_string(*rules_.keep_every);
    const auto damaged = step.state == StepState::kComplete ? instead_.find(step.number) : instead_.end();
    return damaged == instead_.end() ? "" : "for step " + std::to_string(damaged->second) + ", which is damaged";
  }

  bool is_every(const StepFacts& step) const { return rules_.keep_every && step.number % *rules_.keep_every == 0; }

  bool counts(const StepFacts& step) const {
    return step.state == StepState::kComplete && (newest_.contains({step.content, step.number}) || latest_.contains(step.number) ||
                                                  is_every(step) || instead_.contains(step.number));
  }

  std::string narrowed(const StepFacts& step) const {
    if (rules_.older_than_ns && age_at(step.modified_ns) < *rules_.older_than_ns) return "not that old";
    return step.not_alone;
  }

  static std::string newest_text(StepContent content) {
    if (content == StepContent::kFull) return "the newest full one";
    if (content == StepContent::kNoOptimizer) return "the newest without an optimizer";
    return content == StepContent::kModel ? "the newest model-only one" : "the newest of its kind";
  }

  // A time in the future means clocks differ: treat it as just now.
  uint64_t age_at(int64_t ns) const { return static_cast<uint64_t>(std::max<int64_t>(now_ns_ - ns, 0)); }

  const RunSurvey& run_;
  const RetentionRules& rules_;
  const int64_t now_ns_;
  std::set<uint64_t> latest_, marks_;                  // numbers
  std::map<uint64_t, uint64_t> instead_;               // numbers: whole, damaged
  std::set<std::pair<StepContent, uint64_t>> newest_;  // of each content its number
};

// A step that does not stay as it is, in which lies what links of another one lead to.
std::optional<size_t> needed_by(const StepFacts& step, const FilesOfSteps& files, const std::vector<Decision>& decisions) {
  for (const FileId& target : step.leads_to)
    for (const size_t other : files.of(target))
      if (decisions[other].fate != Fate::kKeep) return other;
  return std::nullopt;
}

// The one of a step's checkpoints that its fault is in.
std::string damaged_part(const StepFacts& step) {
  const auto part =
      std::ranges::find_if(step.parts, [&](const std::string& p) { return step.fault && step.fault->place.path.starts_with(p + "/"); });
  return part == step.parts.end() ? step.parts.front() : *part;
}

}  // namespace

std::vector<Decision> decide(const RunSurvey& run, const RetentionRules& rules, int64_t now_ns) {
  const Judge judge(run, rules, now_ns);
  std::vector<Decision> decisions;
  for (size_t s = 0; s < run.steps.size(); ++s) decisions.push_back(judge.of(s));
  const FilesOfSteps files(run.steps);
  for (size_t s = 0; s < run.steps.size();) {
    const std::optional<size_t> needed = decisions[s].fate == Fate::kDelete ? std::nullopt : needed_by(run.steps[s], files, decisions);
    if (needed) decisions[*needed] = {Fate::kKeep, "links in '" + escaped(run.steps[s].name) + "' lead into it"};
    s = needed ? 0 : s + 1;  // what stays may need others
  }
  return decisions;
}

void check_enough_whole(const RunSurvey& run, const RetentionRules& rules, bool something_goes) {
  std::set<uint64_t> whole, listed;  // numbers
  std::string damaged;
  for (const StepFacts& s : run.steps) {
    if (s.state == StepState::kComplete) whole.insert(s.number);
    else if (word_of(s) == "damaged") damaged = s.parts.empty() ? s.path : damaged_part(s);
    else continue;
    listed.insert(s.number);
  }
  const uint64_t wanted = std::min<uint64_t>(std::max<uint64_t>(rules.keep_latest.value_or(0), 1), listed.size());
  const bool is_last_resort = something_goes && whole.empty();  // what did not finish may be all that is left
  if (!is_last_resort && (damaged.empty() || whole.size() >= wanted)) return;
  Problem p = make_problem(ProblemId::whole_steps_lacking, {.path = run.run}, counted(whole.size(), "whole step"),
                           std::to_string(std::max<uint64_t>(wanted, 1)));
  if (damaged.empty())
    p.hint = "no step is complete: what did not finish may be all that is left; look at it, and remove by hand what is not needed";
  else p.names = {damaged};
  throw Error(std::move(p));
}

}  // namespace dcp
