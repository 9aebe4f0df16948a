// Prepares findings for the answer: lists unsafe pickles, of which a checkpoint may have thousands, and folds them.
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
// Being unreadable is not damage: makes such findings errors.
void part_errors(std::vector<Problem>& findings);

// The pickle_unsafe findings; those with the same globals are merged, in order of place.
std::vector<UnsafePickle> fold_unsafe(std::vector<Problem>& findings);

}  // namespace dcp
