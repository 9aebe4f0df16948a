// Run folders: a child folder that is a checkpoint and whose name holds an integer is a step (the last integer: `step-20`,
// `checkpoint_5`, `iter_0000100`, `epoch=0-step=100.ckpt`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inputs/open.h"
#include "inputs/step_folders.h"

namespace dcp {

struct Step {
  uint64_t number = 0;
  std::string path;
  std::vector<std::string> parts = {};           // its checkpoints, if it is not one itself (parts_of)
  std::optional<Problem> broken = std::nullopt;  // why it cannot be used; nullopt: it opens and every item lies inside its file
  bool unfinished = false;                       // its save did not finish: so its name says, or it is empty
  std::string mark = {};                         // a file with which its trainer says that it is complete
  bool lacks_mark = false;                       // although an older step has one
};

struct RunFolder {
  std::string folder;       // that contains the steps
  std::vector<Step> steps;  // ascending; `broken` is set for those that are unfinished or lack their mark
};

// The steps in a folder, or in the only folder below it that has any, such as `checkpoints/` of many trainers. `pattern`: a regular
// expression with one group for the number, searched in the folder's name; "" for the rule above. A folder with .distcp files but no
// metadata is a step too, and so is one with safetensors files: torchtitan's last step may be an export. If no folder is a checkpoint
// itself, those that hold the parts of one are steps: accelerate keeps model and optimizer apart. A folder with the name of an unfinished
// save counts as one, whatever it holds so far, and so does an empty folder with the name of a step. Opens no step. Throws step_ambiguous if several folders below hold steps.
RunFolder find_run(Store& store, const std::string& folder, const std::string& pattern);

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

}  // namespace dcp
