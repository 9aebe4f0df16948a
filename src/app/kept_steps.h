// Checks the steps that prune keeps, before others go for them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/prune.h"
#include "app/world.h"

namespace dcp {

// Which steps of a run have been read whole: one small file in the run, so that their data is not read again. Whoever can write into the run can
// write it: nothing but this depends on it, and what cannot be read or written is as if it were not there.
class WholeSteps {
 public:
  // `run`: the folder of the steps; `steps`: their names. What the file says of others is forgotten.
  WholeSteps(World& world, std::string run, const std::vector<std::string>& steps);

  // Whether the step was read whole while its files were these.
  bool holds(const std::string& name, const std::string& files) const;
  // Writes it down.
  void add(const std::string& name, std::string files);
  // Writes the file anew if an interrupted run has left its working files, which go with that.
  void tidy() const;

 private:
  void read(const std::vector<std::string>& steps);
  void write() const;

  World& world_;
  const std::string run_;
  std::map<std::string, std::string> files_of_;  // by the step's name
};

// What a step's files are: a sum over the name, size, inode and time of each.
std::string files_of(Store& store, const std::string& step);

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
