// What is in a run folder: its steps, which of them are complete and what they hold, and what says which one is the latest. Opens every
// step's metadata and no data; changes nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/world.h"
#include "catalog/open.h"

namespace dcp {

enum class StepState : uint8_t {
  kComplete,  // its metadata parses, and every file that it names is there and long enough
  kLocked,    // a dcpctl is writing it
  kBroken,    // it cannot be loaded, as a save that was cut short leaves it
  kUnclear,   // it cannot be read, or is of a kind or has a fault that no interrupted save explains
};

enum class StepContent : uint8_t { kUnknown, kFull, kModel, kState };  // kState: no model

struct StepFacts {
  uint64_t number = 0;
  std::string name, path;
  FileId id{};
  bool is_link = false;
  StepState state = StepState::kUnclear;
  std::optional<Problem> fault;  // why it is not complete
  StepContent content = StepContent::kUnknown;
  CheckpointKind kind = CheckpointKind::kDcp;
  std::vector<std::string> parts;  // where it is several checkpoints in folders of its own
  uint64_t files = 0, bytes = 0;   // in its folder, and those of its parts
  uint64_t bytes_of_its_own = 0;   // of files that have no other name
  int64_t modified_ns = 0;         // when the last of them was, since the epoch
  std::string not_alone;           // why its folder is not one of a checkpoint alone, that could be removed as a whole; "": it is
};

// `latest -> step-100`, latest_checkpointed_iteration.txt.
struct RunPointer {
  std::string name;
  bool is_link = false;
  std::string says;            // of a file
  std::optional<size_t> step;  // in steps
  std::string wrong;           // what is; "": nothing
};

struct RunSurvey {
  std::string run;               // without '/' at its end
  std::vector<StepFacts> steps;  // ascending by number
  std::vector<RunPointer> pointers;

  // The newest complete one, or the newest of that content.
  std::optional<size_t> newest(std::optional<StepContent> content = std::nullopt) const;
};

struct SurveyRequest {
  std::string run;
  std::string pattern;  // see catalog/run.h
  bool follow_links = false;
  uint64_t max_memory = 0;  // bytes
  unsigned threads = 0;     // 0: the default
};

// Throws no_such_path; not_checkpoint where the path is a file, or a checkpoint itself.
RunSurvey survey_run(const SurveyRequest& request, World& world);

// The newest step that is complete, is of this content, and has a greater number than `after`: looks at no older one.
std::optional<StepFacts> find_newest(const SurveyRequest& request, World& world, std::optional<StepContent> content,
                                     std::optional<uint64_t> after);

}  // namespace dcp
