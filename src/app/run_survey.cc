#include "app/run_survey.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <set>
#include <thread>
#include <utility>

#include "app/resources.h"
#include "base/file_names.h"
#include "catalog/data_files.h"
#include "catalog/structure.h"
#include "files/remove_checkpoint.h"
#include "format/json_text.h"
#include "inputs/refuse.h"
#include "inputs/run.h"
#include "select/training_state.h"

namespace dcp {
namespace {

// A save writes its index last: one that was cut short has none. Where there is one, the save did finish, and what is missing or damaged may lie
// elsewhere, or be wanted by somebody. Whatever else is wrong may be a newer torch's doing, or a disk that cannot be read.
StepState state_of(ProblemId fault) {
  switch (fault) {
    case ProblemId::not_checkpoint: return StepState::kCut;
    case ProblemId::file_missing:
    case ProblemId::item_past_end:
    case ProblemId::short_file:
    case ProblemId::rank_missing:
    case ProblemId::shard_file_missing:
    case ProblemId::hf_index_no_tensor:
    case ProblemId::pickle_no_stop:
    case ProblemId::pickle_truncated:
    case ProblemId::pickle_frame:
    case ProblemId::pickle_unknown_opcode:
    case ProblemId::pickle_underflow:
    case ProblemId::pickle_no_mark:
    case ProblemId::pickle_memo_unset:
    case ProblemId::safetensors_bad_length: return StepState::kBroken;
    default: return StepState::kUnclear;
  }
}

// What the checkpoints of a step hold together.
struct Holds {
  bool model = false, optimizer = false, other = false;

  void add(const TrainingState& state) {
    model |= !state.models.empty();
    optimizer |= std::ranges::any_of(state.groups, [](const KeyGroup& g) { return is_optimizers(g); });
    other |= state.models.empty() || state.has_state();
  }
  StepContent content() const {
    if (!model) return optimizer || other ? StepContent::kState : StepContent::kUnknown;
    return optimizer ? StepContent::kFull : other ? StepContent::kNoOptimizer : StepContent::kModel;
  }
};

// A trainer's file beside a model that it saves as one for others: optimizer.pt of transformers' Trainer.
bool holds_optimizer(std::string_view name) {
  const size_t dot = std::min(name.find('.'), name.size());
  const std::string_view ending = name.substr(dot);
  return (ending == ".pt" || ending == ".bin" || ending == ".pth") && names_optimizer(name.substr(0, dot));
}

// Links in a folder that is no part of a checkpoint.
void note_links(Store& store, const std::string& path, unsigned levels, StepFacts& facts) {
  for (const DirEntry& e : store.list(path)) {
    const std::string inner = path + "/" + e.name;
    if (e.kind == FileKind::kDirectory && !e.link && levels > 0) note_links(store, inner, levels - 1, facts);
    if (const auto target = e.link ? store.facts(inner) : std::nullopt) facts.leads_to.push_back(target->id);
  }
}

class Surveyor {
 public:
  Surveyor(const SurveyRequest& request, World& world, unsigned workers, uint64_t memory_bytes)
      : store_(world.store),
        io_(world.io),
        is_named_(!request.pattern.empty()),
        options_{.limits = {}, .links = request.follow_links ? FollowLinks::kAll : FollowLinks::kCacheOnly} {
    options_.limits.memory_bytes = memory_bytes / workers;
  }

  StepFacts look(const Step& step) const {
    StepFacts facts{.number = step.number, .name = split_path(step.path).name, .path = step.path};
    const std::optional<FileFacts> folder = store_.facts(step.path);
    if (folder) facts.id = folder->id, facts.is_link = folder->link, facts.modified_ns = facts.touched_ns = folder->modified_ns;
    if (facts.is_link) facts.not_alone = "it is a link";
    try {
      facts.parts = step.parts;
      FolderNames names;
      Holds holds;
      std::set<std::string> own;  // files in folders, and these folders
      if (step.unfinished) facts.fault = step.broken;
      if (facts.parts.empty() && !facts.fault) open(step.path, facts, holds, &own);
      for (const std::string& part : facts.parts)
        if (!facts.fault) open(part, facts, holds);
      weigh(step.path, kLevels, step.parts.empty() && !step.unfinished ? &own : nullptr, facts, names);
      holds.optimizer |= !facts.optimizers.empty();
      if (facts.not_alone.empty() && !step.unfinished && !first_to_break(names))
        facts.not_alone = "it has no index: half removed it would look complete";
      if (facts.not_alone.empty() && !step.parts.empty() && !is_named_ && !names_step(facts.name))
        facts.not_alone = "its checkpoints lie in folders, and its name does not say that it is a step";
      facts.content = step.unfinished ? content_if_it_opens(step) : holds.content();
      facts.state = state_of(step, facts);
      if (facts.state == StepState::kCut && !step.mark.empty()) facts.state = StepState::kBroken;  // it was complete
      if (step.parts.empty())  // of one checkpoint, wherever its data lies
        for (; names.size() > 1; names.pop_back()) std::ranges::move(names.back(), std::back_inserter(names.front()));
      const bool is_part = std::ranges::any_of(names, may_be_one_nodes_part);
      if (facts.state == StepState::kCut && is_part) facts.state = StepState::kUnclear;  // the rest may be whole, elsewhere
      if (facts.state == StepState::kUnmarked || facts.state == StepState::kDamaged) facts.fault = step.broken;
    } catch (const Error& e) {  // it is being removed, or cannot be read
      facts.fault = e.problem();
    }
    if (is_locked(step)) facts.state = StepState::kLocked;
    return facts;
  }

 private:
  static constexpr unsigned kLevels = 6;

  static StepState state_of(const Step& step, const StepFacts& facts) {
    if (step.unfinished) return StepState::kUnfinished;
    if (facts.fault) return dcp::state_of(facts.fault->id);
    if (step.known_damaged) return StepState::kDamaged;
    return step.lacks_mark ? StepState::kUnmarked : StepState::kComplete;
  }

  // Of a save that did not finish by its name: it may be whole.
  StepContent content_if_it_opens(const Step& step) const {
    StepFacts facts;
    Holds holds;
    for (const std::string& path : step.parts.empty() ? std::vector{step.path} : step.parts)
      if (!facts.fault) open(path, facts, holds);
    return facts.fault ? StepContent::kUnknown : holds.content();
  }

  // Sizes and ages of what is in a folder, and the names of its files. Of a checkpoint, `own` has files in folders that are known to be its, and these folders.
  void weigh(const std::string& path, unsigned levels, const std::set<std::string>* own, StepFacts& facts, FolderNames& names) const {
    const size_t at = names.size();
    names.emplace_back();
    const std::vector<DirEntry> entries = store_.list(path);
    for (const DirEntry& e : entries) {
      const std::string inner = path + "/" + e.name;
      const std::optional<FileFacts> file = store_.facts(inner);
      if (file) (e.link ? facts.leads_to : facts.inside).push_back(file->id);
      if (e.kind == FileKind::kDirectory && !e.link && levels > 0 &&
          (own == nullptr || own->contains(inner) || holds_data_alone(store_, inner, levels - 1))) {
        facts.levels = kLevels;
        if (file) facts.touched_ns = std::max(facts.touched_ns, file->modified_ns);
        weigh(inner, levels - 1, own, facts, names);
        continue;
      }
      if (e.kind == FileKind::kDirectory && !e.link && levels > 0) note_links(store_, inner, levels - 1, facts);
      const bool regular = e.kind == FileKind::kRegular && !e.link && file;
      const bool is_others = own && own->contains(path) && !own->contains(inner);  // beside files in folders
      if ((!regular || is_others || !is_checkpoint_file(e.name, entries)) && facts.not_alone.empty())
        facts.not_alone = "it holds '" + escaped(e.name) + "', which is not a file of a checkpoint";
      if (!regular) continue;
      names[at].push_back(e.name);
      if (holds_optimizer(e.name) && file->bytes > 0) facts.optimizers.push_back(inner);
      ++facts.files;
      facts.bytes += file->bytes;
      if (file->names == 1) facts.bytes_of_its_own += file->bytes;
      else facts.shared.push_back({.id = file->id, .names = file->names, .bytes = file->bytes});
      // A folder's own time moves with names that come and go, as locks do; what it holds tells more, where it holds something.
      facts.modified_ns = facts.files == 1 ? file->modified_ns : std::max(facts.modified_ns, file->modified_ns);
      facts.touched_ns = std::max(facts.touched_ns, file->modified_ns);
    }
  }

  void open(const std::string& path, StepFacts& facts, Holds& holds, std::set<std::string>* own = nullptr) const {
    try {
      const FrozenCatalog opened = open_checkpoint(store_, path, options_);
      facts.kind = opened->catalog.kind;
      holds.add(find_training_state(opened->catalog));
      facts.fault = fault_of(*opened, facts.more_faults);
      for (const DataFile& f : opened->catalog.files) {
        const std::string_view name = opened->catalog.strings[f.name];
        if (!own || !opened->catalog.traits().data_ending.empty()) break;  // where an ending says so, others' files may lie beside
        for (size_t slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1)) {
          own->insert(path + "/" + std::string(name.substr(0, slash)));
          own->insert(path + "/" + std::string(name));
        }
      }
    } catch (const Error& e) {
      facts.fault = e.problem();
    }
  }

  // The first, and how many more there are.
  static std::optional<Problem> fault_of(const OpenedCatalog& opened, uint64_t& more) {
    std::vector<Problem> faults = structure_findings(opened);
    std::erase_if(faults, [](const Problem& p) { return p.severity < Severity::kDamage && p.id != ProblemId::rank_missing; });
    if (faults.empty()) return std::nullopt;
    more += faults.size() - 1;
    return faults.front();
  }

  bool is_locked(const Step& step) const {
    return is_locked(step.path) || std::ranges::any_of(step.parts, [&](const std::string& part) { return is_locked(part); });
  }

  // Beside it while it is made, or in it while it is filled.
  bool is_locked(const std::string& path) const {
    const auto held = [&](const std::string& folder, const std::string& name) {
      try {
        const std::optional<Handle> lock = io_.open_beneath(folder, name, FollowLinks::kCacheOnly);
        if (!lock) return false;
        const OpenFile file(io_, *lock);
        return !io_.try_lock(*lock);
      } catch (const Error&) {
        return false;  // nothing of ours
      }
    };
    const std::string beside_it = beside(path, kLock);
    return held(folder_around(path), split_path(beside_it).name) || held(path, std::string(kLock));
  }

  Store& store_;
  Io& io_;               // for locks
  const bool is_named_;  // by a pattern: what matches is a step
  OpenOptions options_;
};

bool is_tracker_name(std::string_view name) { return is_latest_name(name) && (name.find('.') == name.npos || name.ends_with(".txt")); }

std::string without_space_at_end(std::string_view text) {
  return std::string(text.substr(0, text.find_last_not_of(" \t\r\n") + 1));  // npos + 1 is 0
}

// Of the path, or the name, that a file says.
std::string step_name_in(const std::string& says) {
  return split_path(without_trailing_slashes(std::filesystem::path(says).lexically_normal())).name;
}

// A link or a tracker file of the run that names a step, or should.
class PointerReader {
 public:
  PointerReader(Store& store, const RunSurvey& survey) : store_(store), survey_(survey), newest_(survey.newest()), files_(survey.steps) {}

  // Of a name in the folder.
  std::vector<RunPointer> read(const std::string& folder, const DirEntry& e) const {
    const bool is_step = std::ranges::find(survey_.steps, folder + "/" + e.name, &StepFacts::path) != survey_.steps.end();
    std::optional<RunPointer> found;
    if (is_step || is_working_name(e.name)) return {};
    if (e.link) found = link(folder, e);
    else if (e.kind == FileKind::kDirectory && scheme_of(folder).empty()) return links_in(folder, e);
    else if (e.kind == FileKind::kRegular && is_tracker_name(e.name)) found = tracker(folder, e);
    else if (e.kind == FileKind::kRegular) return named(folder, e.name);
    return found ? std::vector{std::move(*found)} : std::vector<RunPointer>();
  }

  // Of a folder beside the steps, such as best_model/ whose files are links into one: one a step.
  std::vector<RunPointer> links_in(const std::string& folder, const DirEntry& e) const {
    std::set<size_t> steps;
    StepFacts facts;
    try {
      note_links(store_, folder + "/" + e.name, 2, facts);
    } catch (const Error&) {  // this user may not look into it, or it has just gone
    }
    for (const FileId& target : facts.leads_to) steps.insert(files_.of(target).begin(), files_.of(target).end());
    std::vector<RunPointer> pointers;
    for (const size_t step : steps) pointers.push_back({.name = e.name, .is_link = true, .says = {}, .step = step, .wrong = {}});
    return pointers;
  }

  // Steps that a small file names, whatever it is called: `best`, best_model_checkpoint of trainer_state.json. Its only line does, or a text at
  // the top level of JSON.
  std::vector<RunPointer> named(const std::string& folder, const std::string& file, uint64_t max_json = 1 << 20) const {
    constexpr uint64_t kMaxLine = 4096;
    const bool is_json = file.ends_with(".json");
    std::vector<RunPointer> pointers;
    if (!is_json && file.find('.', 1) != file.npos && !file.ends_with(".txt")) return {};
    try {
      const std::string text(as_text(read_file_beneath(store_, folder, file, FollowLinks::kCacheOnly, is_json ? max_json : kMaxLine)));
      const auto add = [&](std::string_view says) {
        const std::filesystem::path path(says);
        auto step = survey_.steps.end();
        for (auto name = path.end(); step == survey_.steps.end() && name != path.begin();)
          step = std::ranges::find(survey_.steps, (--name)->string(), &StepFacts::name);
        if (step == survey_.steps.end()) return;
        RunPointer p{.name = file, .says = std::string(says), .step = static_cast<size_t>(step - survey_.steps.begin())};
        p.wrong = wrong_step(p);
        pointers.push_back(std::move(p));
      };
      if (is_json)
        walk_json(text, {.path = folder + "/" + file}, {}, ProblemId::not_checkpoint,
                  [&](std::span<const std::string> keys, const JsonValue& value) {
                    if (keys.size() == 1 && value.kind == JsonValue::Kind::kText) add(value.text);
                  });
      else add(without_space_at_end(text));
    } catch (const Error&) {  // it is large, or no text: no file of this kind
    }
    return pointers;
  }

 private:
  std::optional<RunPointer> link(const std::string& folder, const DirEntry& e) const {
    RunPointer p{.name = e.name, .is_link = true, .is_latest = is_latest_name(e.name)};
    const std::optional<FileFacts> target = store_.facts(folder + "/" + e.name);
    if (target) {
      const std::vector<size_t>& steps = files_.of(target->id);
      if (!steps.empty()) p.step = steps.back();
    }
    if (!p.step && !p.is_latest) return std::nullopt;  // a link to something else
    p.wrong = !target ? "leads nowhere" : !p.step ? "leads to no step of the run" : wrong_step(p);
    return p;
  }

  std::optional<RunPointer> tracker(const std::string& folder, const DirEntry& e) const {
    constexpr uint64_t kMax = 4096;
    RunPointer p{.name = e.name, .is_latest = true};
    try {
      p.says = as_text(read_file_beneath(store_, folder, e.name, FollowLinks::kCacheOnly, kMax));
    } catch (const Error& error) {
      p.wrong = to_line(error.problem());
      return p;
    }
    p.says = without_space_at_end(p.says);
    const std::string name = step_name_in(p.says);
    auto step = std::ranges::find(survey_.steps, name, &StepFacts::name);
    const std::optional<uint64_t> number = step_number(name);
    if (step == survey_.steps.end() && number)
      step =
          std::ranges::find_if(survey_.steps, [&](const StepFacts& s) { return s.number == *number && s.state != StepState::kUnfinished; });
    if (step != survey_.steps.end()) p.step = static_cast<size_t>(step - survey_.steps.begin());
    if (!p.step && !number) return std::nullopt;  // Megatron's "release", or a file of another kind
    p.wrong = p.step ? wrong_step(p) : "says '" + escaped(p.says) + "', which is not there";
    return p;
  }

  std::string wrong_step(const RunPointer& p) const {
    const StepFacts& s = survey_.steps[*p.step];
    const std::string points = "points to " + escaped(s.name), word(word_of(s));
    if (s.state != StepState::kComplete) return points + ", which " + (word == "cannot be read" ? "" : "is ") + word;
    if (!p.is_latest || s.number >= survey_.steps[*newest_].number) return {};
    return points + ", though " + escaped(survey_.steps[*newest_].name) + " is newer";
  }

  Store& store_;
  const RunSurvey& survey_;
  const std::optional<size_t> newest_;
  const FilesOfSteps files_;
};

RunFolder run_of(const SurveyRequest& request, World& world) {
  const std::string given = without_trailing_slashes(request.run);
  const std::optional<FileFacts> facts = world.store.facts(given);
  if (!facts) fail(ProblemId::no_such_path, {.path = given});
  if (facts->kind != FileKind::kDirectory) fail(ProblemId::not_checkpoint, {.path = given}, "a file", "a folder of checkpoints");
  RunFolder run = find_run(world.store, given, request.pattern);
  check_order(run);
  if (!run.steps.empty() || !is_checkpoint_folder(world.store, given)) return run;
  Problem p = make_problem(ProblemId::not_checkpoint, {.path = given}, "a checkpoint", "a folder of checkpoints");
  p.what = "is not a run";
  p.hint = "give the folder around it";
  throw Error(std::move(p));
}

// The run's folder, and those around it up to the given one: trainers keep what leads to the latest step in any of them.
std::vector<std::string> folders_from(const std::string& given, std::string folder) {
  std::vector<std::string> folders{folder};
  while (folder.size() > given.size()) folders.push_back(folder = folder_around(folder));
  return folders;
}

}  // namespace

std::string_view word_of(const Problem& fault) {
  if (fault.id == ProblemId::not_checkpoint || fault.id == ProblemId::unfinished_save) return "unfinished";
  return class_of(fault.id) == ProblemClass::kMachine || fault.id == ProblemId::no_such_path ? "cannot be read" : "damaged";
}

std::string_view word_of(const StepFacts& step) {
  switch (step.state) {
    case StepState::kComplete: return "complete";
    case StepState::kLocked:
    case StepState::kCut:
    case StepState::kUnfinished:
    case StepState::kUnmarked: return "unfinished";
    case StepState::kBroken:
    case StepState::kDamaged: return "damaged";
    case StepState::kUnclear: break;
  }
  return step.fault ? word_of(*step.fault) : "damaged";
}

std::optional<size_t> RunSurvey::newest(std::optional<StepContent> content) const {
  for (size_t s = steps.size(); s-- > 0;)
    if (steps[s].state == StepState::kComplete && (!content || steps[s].content == *content)) return s;
  return std::nullopt;
}

std::optional<size_t> RunSurvey::to_resume() const {
  const bool has_optimizer = std::ranges::find(steps, StepContent::kFull, &StepFacts::content) != steps.end();
  return newest(has_optimizer ? StepContent::kFull : StepContent::kNoOptimizer);
}

RunSurvey survey_run(const SurveyRequest& request, World& world) {
  const RunFolder run = run_of(request, world);
  const std::vector<Step>& steps = run.steps;
  RunSurvey survey{
      .run = run.folder, .steps = std::vector<StepFacts>(steps.size()), .checkpoints = {}, .beside = run.beside, .pointers = {}};
  const unsigned workers = static_cast<unsigned>(std::clamp<size_t>(steps.size(), 1, reading_workers(request.threads, world, survey.run)));
  const Surveyor surveyor(request, world, workers, memory_left(take_memory_cap(request.max_memory, world)));
  parallel_for(workers, steps.size(), world.stop, [&](unsigned, uint64_t s) { survey.steps[s] = surveyor.look(steps[s]); });
  if (steps.empty()) survey.checkpoints = checkpoints_below(world.store, survey.run);
  survey.pointers = read_pointers(request.run, survey, world.store);
  if (const auto newest = survey.newest())  // what transformers' Trainer knows of the best step, in a file as long as the training
    std::ranges::move(PointerReader(world.store, survey).named(survey.steps[*newest].path, "trainer_state.json", 64 << 20),
                      std::back_inserter(survey.pointers));
  return survey;
}

const std::vector<size_t>& FilesOfSteps::of(const FileId& id) const {
  static const std::vector<size_t> none;
  if (steps_of_.empty())
    for (size_t s = 0; s < steps_.size(); ++s) {
      steps_of_[{steps_[s].id.device, steps_[s].id.inode}].push_back(s);
      for (const FileId& inside : steps_[s].inside) steps_of_[{inside.device, inside.inode}].push_back(s);
    }
  const auto steps = steps_of_.find({id.device, id.inode});
  return steps == steps_of_.end() ? none : steps->second;
}

std::vector<RunPointer> read_pointers(const std::string& given, const RunSurvey& survey, Store& store) {
  const PointerReader reader(store, survey);
  std::vector<RunPointer> pointers;
  for (const std::string& folder : folders_from(without_trailing_slashes(given), survey.run))
    for (const DirEntry& e : store.list(folder)) std::ranges::move(reader.read(folder, e), std::back_inserter(pointers));
  return pointers;
}

std::vector<Step> steps_of_run(Store& store, const std::string& given, const std::string& pattern) {
  const std::string path = without_trailing_slashes(given);
  const std::optional<FileFacts> facts = store.facts(path);
  if (!facts || facts->kind != FileKind::kDirectory || is_checkpoint_folder(store, path)) return {};
  std::vector<std::string> parts;
  try {
    parts = parts_of(store, path);
  } catch (const Error&) {  // a folder that cannot be listed is a step that cannot be read, if there are steps
  }
  return parts.empty() ? find_run(store, path, pattern).steps : std::vector<Step>();
}

std::optional<StepFacts> find_newest(const SurveyRequest& request, World& world, std::optional<StepContent> content,
                                     std::optional<uint64_t> after) {
  const std::vector<Step> steps = run_of(request, world).steps;
  const Surveyor surveyor(request, world, 1, memory_left(take_memory_cap(request.max_memory, world)));
  std::optional<StepFacts> as_full;  // unless a step has an optimizer
  bool has_optimizer = false;
  for (size_t s = steps.size(); s-- > 0;) {
    const bool is_new = !after || steps[s].number > *after;
    if (!is_new && (!as_full || has_optimizer)) break;
    world.check_stop();
    StepFacts facts = surveyor.look(steps[s]);
    has_optimizer |= facts.content == StepContent::kFull;
    if (facts.state != StepState::kComplete || !is_new) continue;
    if (!content || facts.content == *content) return facts;
    if (*content == StepContent::kFull && facts.content == StepContent::kNoOptimizer && !as_full) as_full = std::move(facts);
  }
  return has_optimizer ? std::nullopt : as_full;
}

namespace {

// In pieces, so that a signal ends it soon.
void sleep_for(uint64_t ns, const World& world) {
  constexpr uint64_t kPiece = 50'000'000;
  for (; ns > 0; ns -= std::min(ns, kPiece)) {
    world.check_stop();
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(ns, kPiece)));
  }
}

}  // namespace

void list_steps(const ListRequest& request, World& world, ListResult& result) {
  constexpr uint64_t kLook = 500'000'000;  // between two looks: network file systems answer for all
  const uint64_t begin = world.io.now_ns();
  // A run's folder is made by its first save: who waits for a step may have begun before.
  bool is_reported = false;
  const auto newest_after = [&](std::optional<uint64_t> number) -> std::optional<StepFacts> {
    if (!request.wait_ns || world.store.facts(request.survey.run)) return find_newest(request.survey, world, request.content, number);
    if (!std::exchange(is_reported, true)) world.events.info("'" + escaped(request.survey.run) + "' does not exist yet");
    return std::nullopt;
  };
  std::optional<uint64_t> after = request.after;
  if (request.after_newest)
    if (const auto newest = newest_after(std::nullopt)) after = newest->number;
  for (;;) {
    result.newest = newest_after(after);
    if (result.newest || !request.wait_ns) break;
    const uint64_t waited = world.io.now_ns() - begin;
    if (waited >= *request.wait_ns) break;
    sleep_for(std::min(kLook, *request.wait_ns - waited), world);
  }
  if (!request.newest_only) result.survey = survey_run(request.survey, world);
}

}  // namespace dcp
