// Checks the steps that prune keeps, before others go for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/prune.h"
#include "app/whole_steps.h"

namespace dcp {

// A step that turns out to be damaged is marked so in the result's survey, with a warning; who decides again then finds others that count.
class KeptSteps {
 public:
  KeptSteps(const SurveyRequest& request, World& world, PruneResult& result) : request_(request), world_(world), result_(result) {}

  // By structure and item heads: those that count, or all that stay.
  bool has_whole_heads(CheckKept which);
  // The steps whose data has to be read.
  std::vector<size_t> to_read(CheckKept which);
  bool has_whole_data(size_t step);
  // Removes what an interrupted run has left of its notes.
  void tidy() { read_before().tidy(); }

 private:
  enum class Look : uint8_t { kHeads, kData };
  bool is_whole(size_t step, Look look);
  std::optional<Problem> damage_of(const std::string& checkpoint, Look look, StepLook& found);
  WholeSteps& read_before();

  const SurveyRequest& request_;
  World& world_;
  PruneResult& result_;
  std::optional<WholeSteps> read_before_;
};

}  // namespace dcp
