// Run folders: a child folder that is a checkpoint and whose name holds an integer is a step (the last integer: `step-20`,
// `checkpoint_5`, `iter_0000100`, `epoch=0-step=100.ckpt`).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/store.h"
#include "inputs/open.h"

namespace dcp {

struct Step {
  uint64_t number = 0;  // of an unfinished one whose name has none: 0
  std::string path;
  std::vector<std::string> parts = {};           // its checkpoints, if it is not one itself (parts_of)
  std::optional<Problem> broken = std::nullopt;  // why it cannot be used; nullopt: it opens and every item lies inside its file
  bool unfinished = false;                       // its save did not finish: so its name says, or it is empty
  std::string mark = {};                         // a file with which its trainer says that it is complete
  bool lacks_mark = false;                       // although an older step has one, or it lacks a part that an older step has
  bool known_damaged = false;                    // since it was read (inputs/step_notes.h)
};

struct RunFolder {
  std::string folder;  // that contains the steps
  std::vector<Step>
      steps;  // ascending; `broken` is set for those that are unfinished, lack their mark or a part, or are known to be damaged
  std::vector<std::string> beside = {};                 // names of folders that are checkpoints, but no steps: see find_run
  std::optional<Problem> unclear_order = std::nullopt;  // why the order of `steps` may not be that in which they were saved
};

// The steps in a folder, or in the only folder below it that has any, such as `checkpoints/` of many trainers. `pattern`: a regular
// expression with one group for the number, searched in the folder's name; "" for the rule above. Then the names of all steps are alike but for
// their numbers; of several kinds of names it is the one whose words are those of a trainer alone (global_step_20, epoch=0-step=100.ckpt, 20),
// so that exports and copies are no steps: step-20.bak, llama-7b, final-v2. A folder with .distcp files but no
// metadata is a step too, and so is one with safetensors files: torchtitan's last step may be an export. If no folder is a checkpoint
// itself, those that hold the parts of one are steps: accelerate keeps model and optimizer apart. A folder with the name of an unfinished
// save counts as one, whatever it holds so far, and so does an empty folder with the name of a step. Opens no step. Throws step_ambiguous if
// several folders hold steps, or names of several kinds may be those of steps.
RunFolder find_run(Store& store, const std::string& folder, const std::string& pattern);

// Throws why the order is unclear. Who wants one number need not ask.
void check_order(const RunFolder& run);

// The problem if a folder's name says that its save did not finish.
std::optional<Problem> unfinished_by_name(const std::string& folder);

// Why this checkpoint cannot be used.
std::optional<Problem> why_broken(Store& store, const std::string& path, const OpenOptions& options);

struct StepQuery {
  std::string run;
  std::string wanted;   // a number, or "latest": the newest complete one
  std::string pattern;  // as for find_run
};
// The path of the step. `broken` gets the newer steps that were skipped. Unfinished steps are never chosen. Throws step_missing,
// step_ambiguous, usage; step_in_parts if the step holds several checkpoints in subfolders, which are the problem's names.
std::string find_step(Store& store, const StepQuery& query, const OpenOptions& options, std::vector<Step>& broken);

// Finds the folders that are the checkpoints of a step, by their names and the names of their files. Opens none.

bool is_checkpoint_folder(Store& store, const std::string& path);
// Whether a folder, whose facts were asked for, has a `.metadata`: known sooner than all that is in it, and nearly every checkpoint has one.
bool has_metadata(Store& store, const std::string& folder);
// Whether these are the entries of a checkpoint, or of one whose save was cut short.
bool looks_like_checkpoint(const std::vector<DirEntry>& entries);

// Whether nothing but data files is in a folder and below, or nothing: connectors of object stores put such folders in front of the names of data
// files, to spread load. What is a checkpoint by itself has other files, too.
bool holds_data_alone(Store& store, const std::string& folder, unsigned levels = 6);

// The checkpoints in the folders of a step, the optimizer's last: `pytorch_model_fsdp_0` and `optimizer_0` of accelerate,
// `model/NAME/ckpt`. Empty if the folder is a checkpoint itself, or has steps, as the folder of an experiment does.
std::vector<std::string> parts_of(Store& store, const std::string& step);

using IsOne = std::function<bool(const std::string& path, const std::vector<DirEntry>& entries)>;
enum class Closed : uint8_t { kThrow, kSkip };  // folders that this user may not list
// The folders up to `levels` below for which is_one() holds, in the order of their names; the others are searched. Follows no link. Stops
// after 10,000 folders.
std::vector<std::string> folders_below(Store& store, const std::string& folder, unsigned levels, const IsOne& is_one, Closed closed);

// Checkpoints up to five levels below, in natural order: for a folder that is neither a checkpoint nor a step.
std::vector<std::string> checkpoints_below(Store& store, const std::string& folder);

// The only checkpoint below a folder that is not one itself, if no folder on the way has the name of a step: `ckpt/`, `model_and_optim/`.
std::optional<std::string> only_checkpoint_below(Store& store, const std::string& folder);

}  // namespace dcp
