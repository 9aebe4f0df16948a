#include "app/kept_steps.h"

#include <algorithm>
#include <span>
#include <utility>

#include "app/output.h"
#include "app/verify.h"
#include "base/file_names.h"
#include "base/json.h"
#include "base/sums.h"
#include "catalog/data_files.h"
#include "format/json_text.h"

namespace dcp {
namespace {

constexpr std::string_view kName = ".dcpctl-whole", kSchema = "dcpctl.whole/1";
constexpr uint64_t kMaxBytes = 1 << 20;  // of 10,000 steps

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

void list_files(Store& store, const std::string& folder, const std::string& below, unsigned levels, std::string& text) {
  for (const DirEntry& e : store.list(folder)) {
    const std::string path = folder + "/" + e.name;
    if (e.kind == FileKind::kDirectory && !e.link && levels > 0) list_files(store, path, below + e.name + "/", levels - 1, text);
    const std::optional<FileFacts> facts = store.facts(path);
    if (e.kind != FileKind::kRegular || !facts) continue;
    text += below + e.name + '\0';
    for (const uint64_t fact : {facts->bytes, facts->id.inode, static_cast<uint64_t>(facts->modified_ns)})
      text += std::to_string(fact) + '\0';
  }
}

}  // namespace

WholeSteps::WholeSteps(World& world, std::string run, const std::vector<std::string>& steps) : world_(world), run_(std::move(run)) {
  if_possible([&] { read(steps); });
}

void WholeSteps::read(const std::vector<std::string>& steps) {
  if (!world_.store.facts(run_ + "/" + std::string(kName))) return;
  const std::vector<std::byte> bytes = read_file_beneath(world_.store, run_, std::string(kName), FollowLinks::kCacheOnly, kMaxBytes);
  std::map<std::string, std::string> found;
  bool is_ours = false;
  walk_json(as_text(bytes), {}, {}, ProblemId::manifest_bad, [&](std::span<const std::string> keys, const JsonValue& v) {
    if (v.kind != JsonValue::Kind::kText) return;
    is_ours |= keys.size() == 1 && keys[0] == "schema" && v.text == kSchema;
    if (keys.size() == 2 && keys[0] == "steps" && std::ranges::find(steps, keys[1]) != steps.end())
      found.insert_or_assign(keys[1], std::string(v.text));
  });
  if (is_ours) files_of_ = std::move(found);
}

bool WholeSteps::holds(const std::string& name, const std::string& files) const {
  const auto found = files_of_.find(name);
  return found != files_of_.end() && found->second == files;
}

void WholeSteps::add(const std::string& name, std::string files) {
  files_of_.insert_or_assign(name, std::move(files));
  if_possible([&] { write(); });
}

void WholeSteps::tidy() const {
  const std::string path = run_ + "/" + std::string(kName);
  if_possible([&] {
    if (world_.store.facts(beside(path, kPartial)) || world_.store.facts(beside(path, kLock))) write();
  });
}

void WholeSteps::write() const {
  std::string text;
  JsonWriter json([&](std::string_view part) { text += part; });
  json.begin_object().member("schema", kSchema).key("steps").begin_object();
  for (const auto& [name, files] : files_of_) json.member(name, files);
  json.end_object().end_object();
  json.finish();
  save_small_file(world_, run_ + "/" + std::string(kName), text, {.sync = false});
}

std::string files_of(Store& store, const std::string& step) {
  constexpr unsigned kLevels = 8;
  std::string text;
  list_files(store, step, "", kLevels, text);
  const Bytes bytes = as_bytes(text);
  return std::to_string(crc64_finish(crc64_raw(bytes), bytes.size()));
}

bool KeptSteps::has_whole_heads(CheckKept which) {
  bool whole = true;
  for (size_t s = result_.survey.steps.size(); s-- > 0;) {
    const Decision& d = result_.decisions[s];
    const bool stays = d.fate == Fate::kKeep && result_.survey.steps[s].state == StepState::kComplete;
    if (result_.looks[s].heads || !(d.counts || (stays && which == CheckKept::kAll))) continue;
    whole = is_whole(s, Look::kHeads) && whole;
  }
  return whole;
}

std::vector<size_t> KeptSteps::to_read(CheckKept which) {
  const RunSurvey& run = result_.survey;
  const std::optional<size_t> full = run.newest(StepContent::kFull), newest = full ? full : run.newest();
  std::vector<size_t> steps;
  for (size_t s = 0; s < run.steps.size(); ++s) {
    StepLook& look = result_.looks[s];
    if (!look.heads || look.data || run.steps[s].state != StepState::kComplete || (which != CheckKept::kAll && s != newest)) continue;
    look.data_before = read_before().holds(run.steps[s].name, files_of(world_.store, run.steps[s].path));
    if (!look.data_before) steps.push_back(s);
  }
  return steps;
}

bool KeptSteps::has_whole_data(size_t s) {
  const StepFacts& step = result_.survey.steps[s];
  const std::string files = files_of(world_.store, step.path);
  if (!is_whole(s, Look::kData)) return false;
  if (files == files_of(world_.store, step.path)) read_before().add(step.name, files);
  return true;
}

bool KeptSteps::is_whole(size_t s, Look look) {
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
  step.state = StepState::kDamaged;
  step.fault = std::move(damage);
  return false;
}

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

WholeSteps& KeptSteps::read_before() {
  if (!read_before_) {
    std::vector<std::string> names;
    for (const StepFacts& s : result_.survey.steps) names.push_back(s.name);
    read_before_.emplace(world_, result_.survey.run, names);
  }
  return *read_before_;
}

}  // namespace dcp
