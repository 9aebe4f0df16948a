// What is in a run folder: its steps, which of them are complete, what they hold, and the pointers to the latest one. Opens every step's
// metadata but no data; changes nothing. Lists it, or waits for a step.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/world.h"
#include "inputs/run.h"

namespace dcp {

enum class StepState : uint8_t {
  kComplete,    // its metadata parses, and every file that it names is there and long enough
  kLocked,      // a dcpctl is writing it
  kCut,         // an interrupted save: no index
  kBroken,      // its index is damaged, or names files or bytes that are not there
  kUnfinished,  // its name says that its save did not finish
  kUnmarked,    // whole as far as it goes, but it lacks its trainer's mark of a complete save, or a part that the step before it has
  kDamaged,     // it looked complete until it was read: prune finds this out, and notes it
  kUnclear,     // it cannot be read, or its kind or its fault is none of these
};

// kFull: model and optimizer. kNoOptimizer: model and other state. kState: no model.
enum class StepContent : uint8_t { kUnknown, kFull, kNoOptimizer, kModel, kState };

// Its bytes come free when its last name goes.
struct SharedFile {
  FileId id{};
  uint64_t names = 0, bytes = 0;
};

struct StepFacts {
  uint64_t number = 0;
  std::string name, path;
  FileId id{};
  bool is_link = false;
  std::vector<FileId> inside{};    // files and folders in it
  std::vector<FileId> leads_to{};  // of links in it
  StepState state = StepState::kUnclear;
  std::optional<Problem> fault;  // why it is not complete
  uint64_t more_faults = 0;      // beside that one
  StepContent content = StepContent::kUnknown;
  CheckpointKind kind{};
  std::vector<std::string> parts;       // if it is several checkpoints in subfolders
  std::vector<std::string> optimizers;  // files of its own, beside a model that is one for others
  unsigned levels = 0;                  // of folders that belong to it
  uint64_t files = 0, bytes = 0;        // in all of them
  uint64_t bytes_of_its_own = 0;        // of files without another hard link
  std::vector<SharedFile> shared;       // those with one
  int64_t modified_ns = 0;              // of the newest file, since the epoch; 0: its store keeps no times
  int64_t touched_ns = 0;               // of the newest file or folder: copies keep the times of files
  std::string not_alone;                // why its folder holds more than a checkpoint and cannot be removed as a whole; "": it can
};

// In which steps a file or a folder lies. Only links ask: the files of a run, which may be a million, are gone through once one does.
class FilesOfSteps {
 public:
  explicit FilesOfSteps(const std::vector<StepFacts>& steps) : steps_(steps) {}
  const std::vector<size_t>& of(const FileId& id) const;

 private:
  const std::vector<StepFacts>& steps_;
  mutable std::map<std::pair<uint64_t, uint64_t>, std::vector<size_t>> steps_of_;  // device, inode: a file may have names in several
};

// What every command calls it: "complete", "unfinished" (its save did not end), "damaged", "cannot be read".
std::string_view word_of(const StepFacts& step);
// Of a checkpoint with this fault.
std::string_view word_of(const Problem& fault);

// `latest -> step-100`, latest_checkpointed_iteration.txt.
struct RunPointer {
  std::string name;
  bool is_link = false;
  std::string says;            // of a file
  bool is_latest = false;      // it is to lead to the newest step
  std::optional<size_t> step;  // in steps
  std::string wrong;           // what is wrong with it; "": nothing
};

struct RunSurvey {
  std::string run;                       // the folder around the steps, without '/' at its end
  std::vector<StepFacts> steps;          // ascending by number
  std::vector<std::string> checkpoints;  // that lie below where there are no steps
  std::vector<std::string> beside;       // names of checkpoints that are no steps by their names
  std::vector<RunPointer> pointers;

  // The newest complete step, or the newest complete one with that content.
  std::optional<size_t> newest(std::optional<StepContent> content = std::nullopt) const;
  // The newest full one; where no step has an optimizer, the newest with other state.
  std::optional<size_t> to_resume() const;
};

struct SurveyRequest {
  std::string run;
  std::string pattern;  // see inputs/run.h
  bool follow_links = false;
  uint64_t max_memory = 0;  // bytes
  unsigned threads = 0;     // 0: the default
};

// Throws no_such_path; not_checkpoint where the path is a file, or a checkpoint itself.
RunSurvey survey_run(const SurveyRequest& request, World& world);

// The links and tracker files of the run as they are now.
std::vector<RunPointer> read_pointers(const std::string& given, const RunSurvey& survey, Store& store);

// The steps of a run, unopened; none where the path is a checkpoint, holds the parts of one, or has no steps.
std::vector<Step> steps_of_run(Store& store, const std::string& path, const std::string& pattern);

// The newest complete step with this content and a number greater than `after`; does not look at older steps, unless one without an optimizer may
// be as full as they are.
std::optional<StepFacts> find_newest(const SurveyRequest& request, World& world, std::optional<StepContent> content,
                                     std::optional<uint64_t> after);

// --- the steps of a run, or the newest one of a kind, which may be waited for

struct ListRequest {
  SurveyRequest survey;
  bool newest_only = false;            // do not look at steps older than the answer
  std::optional<StepContent> content;  // of the newest
  std::optional<uint64_t> after;       // its number must be greater
  bool after_newest = false;           // greater than that of the newest such step now
  std::optional<uint64_t> wait_ns;     // for it
};

struct ListResult {
  RunSurvey survey;                 // unless newest_only
  std::optional<StepFacts> newest;  // complete, of the content, with a greater number
};

// Throws what survey_run throws.
void list_steps(const ListRequest& request, World& world, ListResult& result);

}  // namespace dcp
