// The name that was probably meant.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace dcp {

// Edits between two words: insert, delete, replace, swap neighbours.
size_t edit_distance(std::string_view a, std::string_view b);

// Collects names and keeps the one that `word` is a typo of: one edit in three characters at most.
class Closest {
 public:
  explicit Closest(std::string_view word);
  void offer(std::string_view name);
  const std::string& found() const { return best_; }  // "": none is near

 private:
  std::string_view word_;
  size_t min_;  // edits that are too many
  std::string best_;
};

}  // namespace dcp
