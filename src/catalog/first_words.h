// Keys of one component with dots in it, whose first word is called like a trainer's: a run in flat keys, as Megatron-Core and trainers of their
// own save it (optimizer.distributed.x, chained_0.optimizer.y, optimizer.m.<fqn>, lr_scheduler.last_lr). A module may be called so, too: then
// its parameters are named like no other tensor, while what an optimizer keeps repeats the names of others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "catalog/repeated_names.h"

namespace dcp {

class FirstWords {
 public:
  struct Word {
    uint32_t dir = 0;  // of its keys
    uint32_t end = 0;  // in their last components
    bool is_optimizer = false;
    bool is_module = false;
  };

  // All keys of interest first; then the names of all tensors; then those of tensors that may be parameters.
  void add(size_t key, uint32_t dir, std::string_view leaf);
  void note_tensor(size_t key, std::string_view leaf);
  void note_parameter(size_t key, std::string_view leaf);

  bool empty() const { return words_.empty(); }
  const Word* of(size_t key) const {
    const auto found = word_of_.find(key);
    return found == word_of_.end() ? nullptr : &words_[found->second];
  }

 private:
  std::vector<Word> words_;
  std::unordered_map<size_t, uint32_t> word_of_;  // by key
  std::unordered_map<std::string, uint32_t> numbers_;
  RepeatedNames names_;
};

}  // namespace dcp
