// Findings as an answer: those of what loading would run are listed, of which a checkpoint may have thousands, and folded.
#pragma once

#include <string>
#include <vector>

#include "base/problem.h"

namespace dcp {

// A pickle that runs something: of a byte item or tensor, of the metadata, or of a torch.save file as a whole (no key).
struct UnsafePickle {
  std::string key;
  bool object = false;
  std::string path;
  std::vector<std::string> globals;
};
// What cannot be read is not damaged by that: such findings are errors.
void part_errors(std::vector<Problem>& findings);

// The pickle_unsafe findings. Those that tell of the same globals become one, in the order of their places.
std::vector<UnsafePickle> fold_unsafe(std::vector<Problem>& findings);

}  // namespace dcp
