// Checks the steps that prune keeps, before others go for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/prune.h"
#include "app/world.h"
#include "inputs/step_notes.h"

namespace dcp {

// A step that turns out to be damaged is marked so in the result's survey, with a warning; who decides again then finds others that count.
// What reading data shows is noted in the run; what cannot be written there is not.
class KeptSteps {
 public:
  KeptSteps(const SurveyRequest& request, World& world, PruneResult& result) : request_(request), world_(world), result_(result) {}

  // By structure and item heads: those that count, or all that stay.
  bool has_whole_heads(CheckKept which);
  // The steps whose data has to be read.
  std::vector<size_t> to_read(CheckKept which);
  bool has_whole_data(size_t step);
  // Damage of a step that was found elsewhere.
  void note(size_t step, const Problem& damage);
  // Writes notes of damage that are not written yet, and removes what an interrupted run has left of its notes.
  void tidy();

 private:
  enum class Look : uint8_t { kHeads, kData };
  // `files`: files_of() the step, before it is looked at.
  bool is_whole(size_t step, Look look, const std::string& files);
  std::optional<Problem> damage_of(const std::string& checkpoint, Look look, StepLook& found);
  void note(size_t step, Problem damage, const std::string& files);
  StepNotes& notes();
  void write_notes();
  std::string notes_path() const { return result_.survey.run + "/" + std::string(kStepNotes); }

  const SurveyRequest& request_;
  World& world_;
  PruneResult& result_;
  std::optional<StepNotes> notes_;
  bool has_news_ = false;  // that are not written yet
};

}  // namespace dcp
