// What reading the steps of a run has shown before: one small file in the run, so that their data is not read again, and so that a step that is
// known to be damaged is not called complete. Whoever can write into the run can write it, and remove steps: what it says of whole ones
// counts for nothing but that they are not read again. What cannot be read is as if it were not there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/problem.h"
#include "base/store.h"

namespace dcp {

constexpr std::string_view kStepNotes = ".dcpctl-whole";

struct StepNotes {
  struct Damage {
    std::string files;  // files_of() then
    std::string what;   // in words
  };
  std::map<std::string, std::string> whole;  // files_of() those that were read whole, by the names of the steps
  std::map<std::string, Damage> damaged;     // by the names of the steps
};

StepNotes read_step_notes(Store& store, const std::string& run);
std::string text_of(const StepNotes& notes);

// What a step's files are: a sum over the name, size, inode and time of each.
std::string files_of(Store& store, const std::string& step);

// The damage that was found in a step while its files were what they are now.
std::optional<Problem> noted_damage(Store& store, const StepNotes& notes, const std::string& step);

}  // namespace dcp
