#include "app/kept_steps.h"

#include <algorithm>
#include <utility>

#include "app/output.h"
#include "app/verify.h"
#include "base/file_names.h"
#include "catalog/data_files.h"

namespace dcp {
namespace {

// Machine failures of so small a matter are none; a signal is one.
template <class F>
void if_possible(F f) {
  try {
    f();
  } catch (const Error& e) {
    const ProblemClass c = class_of(e.problem().id);
    if (c == ProblemClass::kInterrupted || c == ProblemClass::kTerminated) throw;
  }
}

}  // namespace

bool KeptSteps::has_whole_heads(CheckKept which) {
  bool whole = true;
  for (size_t s = result_.survey.steps.size(); s-- > 0;) {
    const Decision& d = result_.decisions[s];
    const bool stays = d.fate == Fate::kKeep && result_.survey.steps[s].state == StepState::kComplete;
    if (result_.looks[s].heads || !(d.counts || (stays && which == CheckKept::kAll))) continue;
    whole = is_whole(s, Look::kHeads, files_of(world_.store, result_.survey.steps[s].path)) && whole;
  }
  return whole;
}

std::vector<size_t> KeptSteps::to_read(CheckKept which) {
  const RunSurvey& run = result_.survey;
  const std::optional<size_t> full = run.to_resume(), newest = full ? full : run.newest();
  std::vector<size_t> steps;
  for (size_t s = 0; s < run.steps.size(); ++s) {
    StepLook& look = result_.looks[s];
    if (!look.heads || look.data || run.steps[s].state != StepState::kComplete || (which != CheckKept::kAll && s != newest)) continue;
    const auto noted = notes().whole.find(run.steps[s].name);
    look.data_before = noted != notes().whole.end() && noted->second == files_of(world_.store, run.steps[s].path);
    if (!look.data_before) steps.push_back(s);
  }
  return steps;
}

bool KeptSteps::has_whole_data(size_t s) {
  const StepFacts& step = result_.survey.steps[s];
  const std::string files = files_of(world_.store, step.path);
  const bool whole = is_whole(s, Look::kData, files);
  if (whole && files == files_of(world_.store, step.path)) notes().whole.insert_or_assign(step.name, files);
  write_notes();
  return whole;
}

bool KeptSteps::is_whole(size_t s, Look look, const std::string& files) {
  StepFacts& step = result_.survey.steps[s];
  StepLook& found = result_.looks[s];
  found.bytes = 0;
  std::optional<Problem> damage;
  for (const std::string& checkpoint : step.parts.empty() ? std::vector{step.path} : step.parts)
    if (!damage) damage = damage_of(checkpoint, look, found);
  for (const std::string& optimizer : step.optimizers) {
    if (damage || !traits_of(step.kind).tensors_only) break;  // elsewhere it is a rank's part, which the checkpoint knows
    damage = damage_of(optimizer, look, found);
    if (damage && damage->id == ProblemId::not_checkpoint) damage.reset();  // another format
  }
  (look == Look::kHeads ? found.heads : found.data) = true;
  if (!damage) return true;
  world_.events.warn(world_.events.line_of(*damage));
  world_.events.warn("'" + escaped(step.path) + "' is damaged: it stays, and does not count");
  note(s, *damage, files);
  step.state = StepState::kDamaged;
  step.fault = std::move(damage);
  return false;
}

void KeptSteps::note(size_t s, Problem damage, const std::string& files) {
  const StepFacts& step = result_.survey.steps[s];
  std::string& path = damage.place.path;
  if (path.starts_with(step.path + "/")) path.erase(0, step.path.size() + 1);
  notes().damaged.insert_or_assign(step.name, StepNotes::Damage{files, to_line(damage)});
  has_news_ = true;
}

void KeptSteps::note(size_t s, const Problem& damage) { note(s, damage, files_of(world_.store, result_.survey.steps[s].path)); }

// What opening refuses is damage, too: the step was listed as complete.
std::optional<Problem> KeptSteps::damage_of(const std::string& checkpoint, Look look, StepLook& found) {
  VerifyResult result;
  try {
    verify({.read = {.source = {.path = checkpoint, .follow_links = request_.follow_links},
                     .ranks = {},
                     .max_memory = request_.max_memory,
                     .threads = request_.threads},
            .data = look == Look::kData},
           world_, result);
  } catch (const Error& e) {
    const ProblemClass c = class_of(e.problem().id);
    if (c != ProblemClass::kInput && c != ProblemClass::kAnswerNo) throw;
    return e.problem();
  }
  found.bytes += result.file_bytes;
  for (const Problem& p : result.findings) {
    if (p.severity >= Severity::kDamage) {                           // the worst come first
      if (class_of(p.id) == ProblemClass::kMachine) throw Error(p);  // what cannot be read now is not known to be damaged
      return p;
    }
    if (p.id == ProblemId::crc_absent && look == Look::kData) world_.events.info(world_.events.line_of(p));
  }
  return std::nullopt;
}

StepNotes& KeptSteps::notes() {
  if (!notes_) {
    notes_ = read_step_notes(world_.store, result_.survey.run);
    const auto is_gone = [&](const auto& note) {
      return std::ranges::find(result_.survey.steps, note.first, &StepFacts::name) == result_.survey.steps.end();
    };
    std::erase_if(notes_->whole, is_gone);
    std::erase_if(notes_->damaged, is_gone);
  }
  return *notes_;
}

void KeptSteps::write_notes() {
  if_possible([&] { save_small_file(world_, notes_path(), text_of(notes()), {.sync = false}); });
  has_news_ = false;
}

void KeptSteps::tidy() {
  if_possible([&] {
    if (has_news_ || world_.store.facts(beside(notes_path(), kPartial)) || world_.store.facts(beside(notes_path(), kLock))) write_notes();
  });
}

}  // namespace dcp
