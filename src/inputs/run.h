// Run folders: a child folder that is a checkpoint and whose name holds an integer is a step (the last integer: `step-20`,
// `checkpoint_5`, `iter_0000100`, `epoch=0-step=100.ckpt`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inputs/open.h"

namespace dcp {

bool is_checkpoint_folder(Store& store, const std::string& path);

struct Step {
  uint64_t number = 0;
  std::string path;
  std::optional<Problem> broken;  // why it cannot be used; nullopt: it opens and every item lies inside its file
};

// The steps of a run, ascending. `pattern`: a regular expression with one group for the number, searched in the folder's name; "" for the
// rule above. A folder with .distcp files but no metadata is a step too, and so is one with safetensors files: torchtitan's last step may
// be an export. Opens none of them and leaves `broken` empty: see why_broken.
std::vector<Step> steps_of(Store& store, const std::string& run, const std::string& pattern);

// The same; if there are none, folders that hold the checkpoints of a step in subfolders (parts_of): accelerate keeps model and optimizer
// apart.
std::vector<Step> all_steps_of(Store& store, const std::string& run, const std::string& pattern);
// The checkpoints in a folder's subfolders, the optimizer's last. Empty if the folder is a checkpoint itself.
std::vector<std::string> parts_of(Store& store, const std::string& step);

// Why this checkpoint cannot be used.
std::optional<Problem> why_broken(Store& store, const std::string& path, const OpenOptions& options);

struct StepQuery {
  std::string run;
  std::string wanted;   // a number, or "latest": the newest complete one
  std::string pattern;  // as for steps_of
};
// The path of the step. `broken` gets the newer ones that were skipped. Throws step_missing, step_ambiguous, usage; step_in_parts if the
// step holds several checkpoints in subfolders, which are the problem's names.
std::string find_step(Store& store, const StepQuery& query, const OpenOptions& options, std::vector<Step>& broken);

}  // namespace dcp
