// What a glob on the command line means among the keys that there are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dcp {

// Shell patterns: * and ? match any character, dots too.
bool glob_matches(const std::string& glob, std::string_view key);

// Without a character that is special in a glob.
bool is_bare(std::string_view glob);

// Views the keys, which must outlive it.
class KnownKeys {
 public:
  explicit KnownKeys(std::vector<std::string_view> keys);

  bool has(std::string_view key) const;
  bool has_below(const std::string& dict) const;  // a key in it

  // A bare word that is no key but a dict, one that keys lie below, means these: "optimizer" is "optimizer.*". Any other glob means itself.
  std::string meant(const std::string& glob) const;
  // Of a glob that matches no key, what would help: the nearest one that does. "" if none is near.
  std::string hint_for(const std::string& glob) const;

 private:
  bool any_matches(const std::string& glob) const;
  std::string widened(const std::string& glob) const;
  std::string corrected(std::string_view glob) const;

  std::vector<std::string_view> keys_;  // sorted
};

}  // namespace dcp
