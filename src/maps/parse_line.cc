#include "maps/parse_line.h"

namespace dcp::maps {

Word MapText::intern(const std::string& text) {
  const auto [it, is_new] = map.word_ids.try_emplace(text, static_cast<Word>(map.words.size()));
  if (is_new) {
    map.words.push_back(text);
    for (std::vector<bool>* flags : {&map.is_index, &map.is_size, &map.is_axis}) flags->push_back(false);
  }
  return it->second;
}

void MapText::too_long(Spot spot, const char* what, uint64_t max) const {
  fail_at(map, spot, ProblemId::over_limit, what, "at most " + std::to_string(max));
}

}  // namespace dcp::maps
