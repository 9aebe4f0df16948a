#include "words.h"

#include <algorithm>
#include <charconv>

#include "base/problem.h"

namespace dcp::cmd {

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

unsigned parse_count(const std::string& text, const char* option, unsigned least, unsigned most) {
  unsigned n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < least || n > most)
    fail(ProblemId::usage, {}, std::string(option) + " '" + text + "'",
         "numbers from " + std::to_string(least) + " to " + std::to_string(most) + " with commas between");
  return n;
}

}  // namespace dcp::cmd
