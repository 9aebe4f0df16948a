#include "base/file_names.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/sums.h"
#include "base/text.h"

namespace dcp {

bool is_working_name(std::string_view name) { return name.starts_with('.') && (name.ends_with(kPartial) || name.ends_with(kOld)); }

std::string_view scheme_of(std::string_view path) {
  const std::string_view scheme = path.substr(0, path.find(':'));
  if (!path.substr(scheme.size()).starts_with("://")) return {};
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_later = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.'; };
  return !scheme.empty() && is_letter(scheme[0]) && std::ranges::all_of(scheme, is_later) ? scheme : std::string_view();
}

size_t root_bytes(std::string_view path) {
  const size_t scheme = scheme_of(path).size();
  return scheme > 0 ? scheme + 3 : 1;
}

std::string without_trailing_slashes(std::string path) {
  while (path.size() > root_bytes(path) && path.ends_with('/')) path.pop_back();
  return path;
}

std::string folder_around(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : without_trailing_slashes(path.substr(0, slash + 1));
}

SplitPath split_path(const std::string& path) {
  const size_t name = path.rfind('/') + 1;  // npos + 1 is 0
  return {path.substr(0, name), path.substr(name)};
}

std::string beside(const std::string& path, std::string_view ending) {
  constexpr size_t kMaxName = 255;        // NAME_MAX of Linux
  const size_t at = path.rfind('/') + 1;  // npos + 1 is 0
  std::string name = path.substr(at);
  if (1 + name.size() + ending.size() > kMaxName) {
    const std::string sum = "-" + std::to_string(crc32(as_bytes(name)));
    name = name.substr(0, kMaxName - 1 - sum.size() - ending.size()) + sum;
  }
  return path.substr(0, at) + "." + name + std::string(ending);
}

namespace {

constexpr std::string_view kDigits = "0123456789";

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::optional<NameDigits> last_digits(std::string_view name) {
  const size_t last = name.find_last_of(kDigits);
  if (last == name.npos) return std::nullopt;
  const size_t begin = name.find_last_not_of(kDigits, last) + 1;  // npos + 1 is 0
  return NameDigits{.begin = begin, .size = last + 1 - begin};
}

std::optional<uint64_t> value_of(std::string_view name, const std::optional<NameDigits>& digits) {
  return digits ? decimal<uint64_t>(name.substr(digits->begin, digits->size)) : std::nullopt;
}

}  // namespace

std::optional<uint64_t> last_integer(std::string_view name) { return value_of(name, last_digits(name)); }

std::vector<NameDigits> numbers_in(std::string_view name) {
  std::vector<NameDigits> all;
  for (size_t at = name.find_first_of(kDigits), end = 0; at < name.size(); at = name.find_first_of(kDigits, end)) {
    end = std::min(name.find_first_not_of(kDigits, at), name.size());
    all.push_back({.begin = at, .size = end - at});
  }
  return all;
}

std::optional<NameDigits> step_digits(std::string_view given) {
  const std::string name = lower(given);
  for (size_t at = name.size(); at-- > 0;) {
    const std::string_view rest = std::string_view(name).substr(at);
    const bool is_batch = rest.starts_with("ba") && (at == 0 || std::isalpha(static_cast<unsigned char>(name[at - 1])) == 0);
    if (!rest.starts_with("step") && !rest.starts_with("iter") && !is_batch) continue;
    const size_t word = rest.starts_with("iteration") ? 9 : rest.starts_with("batch") ? 5 : is_batch ? 2 : 4;
    const size_t begin = name.find_first_not_of("=_-", at + word + (rest.substr(word).starts_with('s') ? 1 : 0));
    if (begin == name.npos || !is_digit(name[begin])) continue;
    return NameDigits{.begin = begin, .size = std::min(name.find_first_not_of(kDigits, begin), name.size()) - begin, .is_named = true};
  }
  return last_digits(name);
}

std::optional<uint64_t> step_number(std::string_view name) { return value_of(name, step_digits(name)); }

bool names_step(std::string_view name) {
  constexpr std::string_view kWords[] = {"step", "iter", "epoch", "checkpoint", "ckpt", "batch"};
  if (!last_integer(name)) return false;
  const std::string text = lower(name);
  return text.find_first_not_of(kDigits) == text.npos ||
         std::ranges::any_of(kWords, [&](std::string_view word) { return text.find(word) != text.npos; });
}

bool is_latest_name(std::string_view name) {
  for (const std::string_view word : {"latest", "last"}) {
    const size_t at = name.find(word);
    if (at == std::string_view::npos) continue;
    const auto letter = [&](size_t i) { return i < name.size() && std::isalpha(static_cast<unsigned char>(name[i])) != 0; };
    if ((at == 0 || !letter(at - 1)) && !letter(at + word.size())) return true;
  }
  return false;
}

bool is_unfinished_name(std::string_view name) {
  constexpr std::string_view kBeginnings[] = {"tmp_", "tmp-", ".tmp"};
  constexpr std::string_view kEndings[] = {".tmp", "_tmp", "-tmp", ".partial", ".incomplete"};
  return std::ranges::any_of(kBeginnings, [&](std::string_view text) { return name.starts_with(text); }) ||
         std::ranges::any_of(kEndings, [&](std::string_view text) { return name.ends_with(text); });
}

bool is_completion_mark(std::string_view name) {
  constexpr std::string_view kMarks[] = {"checkpoint_manifest.json", "_SUCCESS", ".complete"};
  return std::ranges::find(kMarks, name) != std::end(kMarks);
}

}  // namespace dcp
