#include "app/prune.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "app/edit.h"
#include "app/kept_steps.h"
#include "app/resources.h"
#include "base/file_names.h"
#include "base/stores.h"
#include "files/claim.h"
#include "files/remove_checkpoint.h"

namespace dcp {
namespace {

class Pruning {
 public:
  Pruning(const PruneRequest& request, World& world, PruneResult& result)
      : request_(request), world_(world), result_(result), kept_(request.survey, world, result) {}

  void plan() {
    result_.survey = survey_run(request_.survey, world_);
    result_.looks.resize(result_.survey.steps.size());
    result_.done.resize(result_.survey.steps.size());
    for (const StepFacts& step : result_.survey.steps)
      if (step.state == StepState::kDamaged) world_.events.warn(world_.events.line_of(*step.fault));
    decide_again();
  }

  // Until every step that counts has whole heads.
  void decide_again() {
    do {
      result_.decisions = decide(result_.survey, request_.rules, request_.now_ns);
      weigh();
      something_goes_ = something_goes_ || result_.has_work();
    } while (checks() && !kept_.has_whole_heads(request_.check));
    check_enough_whole(result_.survey, request_.rules, result_.has_work());
    result_.to_read = checks() ? kept_.to_read(request_.check) : std::vector<size_t>();
  }

  // Of what is to be read; false where a step is damaged.
  bool has_whole_data() {
    return std::ranges::all_of(result_.to_read, [&](size_t s) { return kept_.has_whole_data(s); });
  }

  void carry_out() {
    const OpenFile run(world_.io, world_.io.open_folder(result_.survey.run));
    for (size_t s = 0; s < result_.decisions.size(); ++s) {
      const StepFacts& step = result_.survey.steps[s];
      world_.check_stop();
      if (result_.decisions[s].fate != Fate::kKeep) keep_what_is_pointed_to();
      if (result_.done[s] == Done::kChanged) continue;
      switch (result_.decisions[s].fate) {
        case Fate::kKeep: put_in_order(step); break;
        case Fate::kDelete: remove(run.get(), s, step); break;
        case Fate::kDropOptimizer: drop(s, step); break;
      }
    }
    remove_leftovers(run.get());
    kept_.tidy();
    if (request_.sync) world_.io.sync_folder(run.get());
  }

 private:
  DropRequest drop_of(const StepFacts& step) const {
    return {.source = {.path = step.path, .follow_links = request_.survey.follow_links, .itself = true},
            .memory_bytes = memory_left(request_.survey.max_memory),
            .threads = request_.survey.threads,
            .sync = request_.sync};
  }

  // Nothing is looked at for nothing; but where damage lets all stay, it is known how many are whole.
  bool checks() const { return request_.check != CheckKept::kNothing && something_goes_; }

  void weigh() {
    result_.frees.clear();
    std::map<std::pair<uint64_t, uint64_t>, uint64_t> gone;  // names of files that several steps share
    for (size_t s = 0; s < result_.decisions.size(); ++s) {
      const StepFacts& step = result_.survey.steps[s];
      result_.frees.push_back(freed_by(step, result_.decisions[s]));
      if (result_.decisions[s].fate != Fate::kDelete) continue;
      for (const SharedFile& f : step.shared)
        if (++gone[{f.id.device, f.id.inode}] == f.names) result_.frees.back() += f.bytes;
    }
  }

  // Drops nothing of a step that is damaged, or whose optimizer cannot be told from its model.
  uint64_t freed_by(const StepFacts& step, Decision& decision) const {
    if (decision.fate == Fate::kDelete) return step.bytes_of_its_own;
    if (decision.fate == Fate::kKeep) return 0;
    try {
      return freed_by_drop(drop_of(step), world_);
    } catch (const Error& e) {
      decision = {Fate::kKeep, world_.events.line_of(e.problem())};
      return 0;
    }
  }

  // A link or a tracker file may have come since the plan was made, or while other steps were deleted: what now leads to a step keeps it.
  void keep_what_is_pointed_to() {
    for (const RunPointer& p : read_pointers(request_.survey.run, result_.survey, world_.store)) {
      if (!p.step || result_.decisions[*p.step].fate == Fate::kKeep || result_.done[*p.step] != Done::kNothing) continue;
      result_.done[*p.step] = Done::kChanged;
      world_.events.info("'" + escaped(result_.survey.steps[*p.step].path) + "' is kept: '" + escaped(p.name) + "' leads to it now");
    }
  }

  void remove(Handle run, size_t s, const StepFacts& step) {
    const CheckpointFolder folder{
        .name = step.name, .id = step.id, .levels = step.levels, .files = step.files, .bytes = step.bytes, .modified_ns = step.modified_ns};
    const bool removed = remove_checkpoint(world_.io, run, folder);
    result_.done[s] = removed ? Done::kYes : Done::kChanged;
    if (removed) result_.freed += result_.frees[s];
    else world_.events.info("'" + escaped(step.path) + "' has changed meanwhile, and is kept");
  }

  // A fault of one step does not keep the others from going on; a machine failure does.
  void drop(size_t s, const StepFacts& step) {
    try {
      result_.freed += drop_state(drop_of(step), world_);
      result_.done[s] = Done::kYes;
    } catch (const Error& e) {
      if (class_of(e.problem().id) != ProblemClass::kInput) throw;
      result_.done[s] = Done::kFailed;
      result_.failed.emplace(s, e.problem());
      kept_.note(s, e.problem());
      world_.events.warn(world_.events.line_of(e.problem()));
      world_.events.warn("'" + escaped(step.path) + "' is damaged, and is left alone");
    }
  }

  // What a run that was interrupted while it deleted has left: locks, and a folder in which nothing is any more.
  void remove_leftovers(Handle run) {
    for (const DirEntry& e : world_.io.list(run)) {
      if (!e.name.starts_with('.') || !e.name.ends_with(kLock) || e.kind != FileKind::kRegular) continue;
      ignoring_errors([&] {
        const ClaimedName left(world_.io, run, e.name);
        const std::string step = e.name.substr(1, e.name.size() - 1 - kLock.size());
        const std::optional<Handle> handle = left.is_ours() ? world_.io.open_folder(run, step) : std::nullopt;
        if (!handle) return;
        const OpenFile folder(world_.io, *handle);
        if (world_.io.list(folder.get()).empty()) world_.io.remove_folder(run, step);
      });
    }
  }

  void put_in_order(const StepFacts& step) {
    const bool requested = request_.rules.drop_optimizer && step.state == StepState::kComplete && step.not_alone.empty();
    if (requested && has_interrupted_drop(world_.io, step.path)) finish_interrupted_drop(step.path, world_, request_.sync);
  }

  const PruneRequest& request_;
  World& world_;
  PruneResult& result_;
  KeptSteps kept_;
  bool something_goes_ = false;
};

}  // namespace

uint64_t PruneResult::to_free() const { return std::accumulate(frees.begin(), frees.end(), uint64_t{0}); }

uint64_t PruneResult::bytes_to_read() const {
  return std::accumulate(to_read.begin(), to_read.end(), uint64_t{0}, [&](uint64_t sum, size_t s) { return sum + looks[s].bytes; });
}

bool PruneResult::has_work() const {
  return std::ranges::any_of(decisions, [](const Decision& d) { return d.fate != Fate::kKeep; });
}

void prune(const PruneRequest& request, World& world, PruneResult& result, const std::function<bool()>& confirmed) {
  check_on_disk(world.store, request.survey.run);
  Pruning pruning(request, world, result);
  pruning.plan();
  while (confirmed() && !request.dry_run) {
    if (pruning.has_whole_data()) return pruning.carry_out();
    pruning.decide_again();
  }
}

}  // namespace dcp
