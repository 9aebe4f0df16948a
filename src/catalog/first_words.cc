#include "catalog/first_words.h"

#include "catalog/state_names.h"

namespace dcp {

void FirstWords::add(size_t key, uint32_t dir, std::string_view leaf) {
  if (leaf.size() > kLongestName) return;
  size_t begin = 0, end = leaf.find('.');
  if (end != std::string_view::npos && without_number(leaf.substr(0, end)) == "chained") {  // one of Megatron-Core's ChainedOptimizer
    begin = end + 1;
    end = leaf.find('.', begin);
  }
  if (end == std::string_view::npos) return;
  const std::string_view word = leaf.substr(begin, end - begin);
  if (!names_training_state(word)) return;
  const auto [it, fresh] = numbers_.try_emplace(std::to_string(dir) + "." + std::string(leaf.substr(0, end)), words_.size());
  if (fresh) words_.push_back({.dir = dir, .end = static_cast<uint32_t>(end), .is_optimizer = may_name_optimizer(word)});
  word_of_.emplace(key, it->second);
}

void FirstWords::note_tensor(size_t key, std::string_view leaf) {
  if (word_of_.contains(key)) return;
  names_.add(leaf);
  if (const size_t dot = leaf.find('.'); dot != std::string_view::npos) names_.add(leaf.substr(dot + 1));
}

void FirstWords::note_parameter(size_t key, std::string_view leaf) {
  const auto found = word_of_.find(key);
  if (found != word_of_.end() && !names_.repeats(leaf.substr(words_[found->second].end + 1))) words_[found->second].is_module = true;
}

}  // namespace dcp
