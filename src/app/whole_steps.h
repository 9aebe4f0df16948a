// Which steps of a run have been read whole: one small file in the run, so that their data is not read again. Whoever can write into the run can
// write it: nothing but this depends on it, and what cannot be read or written is as if it were not there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/world.h"

namespace dcp {

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

}  // namespace dcp
