// Finds the name that was probably meant.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace dcp {

// The number of edits between two words: insert, delete, replace, swap neighbours.
size_t edit_distance(std::string_view a, std::string_view b);

// Finds, among the names offered, the closest one that `word` could be a typo of: at most one edit per three characters.
class Closest {
 public:
  explicit Closest(std::string_view word);
  void offer(std::string_view name);
  const std::string& found() const { return best_; }  // "": no name is close

 private:
  std::string_view word_;
  size_t min_;  // a name this many edits away is too far
  std::string best_;
};

}  // namespace dcp
