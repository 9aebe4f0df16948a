#include "select/globs.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "base/text.h"

namespace dcp {

bool is_bare(std::string_view glob) { return glob.find_first_of("*?[\\") == std::string_view::npos; }

bool glob_matches(const std::string& glob, std::string_view key) { return fnmatch(glob.c_str(), std::string(key).c_str(), 0) == 0; }

KnownKeys::KnownKeys(std::vector<std::string_view> keys) : keys_(std::move(keys)) { std::ranges::sort(keys_); }

bool KnownKeys::has(std::string_view key) const { return std::ranges::binary_search(keys_, key); }

bool KnownKeys::any_matches(const std::string& glob) const {
  return std::ranges::any_of(keys_, [&](std::string_view key) { return glob_matches(glob, key); });
}

bool KnownKeys::has_below(const std::string& dict) const {
  const std::string begin = dict + ".";
  const auto first = std::ranges::lower_bound(keys_, std::string_view(begin));
  return first != keys_.end() && first->starts_with(begin);
}

std::string KnownKeys::meant(const std::string& glob) const { return is_bare(glob) && !has(glob) && has_below(glob) ? glob + ".*" : glob; }

// The same with what it lacks at its ends. "optim" that only optimizer.* begins with is "optimizer*".
std::string KnownKeys::widened(const std::string& glob) const {
  if (is_bare(glob)) {
    const auto [first, last] =
        std::ranges::equal_range(keys_, std::string_view(glob), {}, [&](std::string_view key) { return key.substr(0, glob.size()); });
    std::set<std::string_view> begins;
    for (auto key = first; key != last && begins.size() < 2; ++key) begins.insert(key->substr(0, key->find('.', glob.size())));
    if (begins.size() == 1) return std::string(*begins.begin()) + "*";
  }
  for (const std::string& wider : {glob + "*", "*." + glob, "*." + glob + ".*", "*" + glob, "*" + glob + "*"})
    if (any_matches(wider)) return wider;
  return "";
}

// Components that no key has are taken for typing errors.
std::string KnownKeys::corrected(std::string_view glob) const {
  std::set<std::string_view> known;
  for (const std::string_view key : keys_)
    for (const std::string_view part : split(key, '.')) known.insert(part);
  std::string text;
  for (const std::string_view part : split(glob, '.')) {
    const size_t rest = std::min(part.find_last_not_of('*') + 1, part.size());
    Closest closest(part.substr(0, rest));
    if (rest > 0 && is_bare(part.substr(0, rest)) && !known.contains(part))
      for (const std::string_view name : known) closest.offer(name);
    std::string meant = closest.found();
    if (meant.empty() && rest > 0 && !known.contains(part))
      for (const std::string_view name : known)  // optim of optimizer
        if (name.size() >= 3 && name.size() > meant.size() && part.substr(0, rest).starts_with(name)) meant = name;
    if (meant.empty() && rest >= 3 && is_bare(part.substr(0, rest)) && !known.contains(part)) {  // optimizer of optim
      const auto first = known.lower_bound(part.substr(0, rest));
      if (first != known.end() && first->starts_with(part.substr(0, rest))) meant = *first;
    }
    text += (text.empty() ? "" : ".") + (meant.empty() ? std::string(part) : meant + std::string(part.substr(rest)));
  }
  return text;
}

std::string KnownKeys::hint_for(const std::string& glob) const {
  if (glob.empty()) return "";
  if (const std::string wider = widened(glob); !wider.empty()) return "a glob matches the whole key: '" + wider + "'";
  const std::string other = corrected(glob);
  if (other == glob) return "";
  if (any_matches(other)) return "did you mean '" + other + "'?";
  const std::string wider = widened(other);
  return wider.empty() ? "" : "a glob matches the whole key: '" + wider + "'";
}

}  // namespace dcp
