#include "base/step_names.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/decimal.h"
#include "base/text.h"

namespace dcp {

std::optional<uint64_t> last_integer(std::string_view name) {
  const auto end = name.find_last_of("0123456789");
  if (end == std::string_view::npos) return std::nullopt;
  const auto before = name.find_last_not_of("0123456789", end);
  const size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return decimal<uint64_t>(name.substr(begin, end + 1 - begin));
}

bool names_step(std::string_view name) {
  constexpr std::string_view kWords[] = {"step", "iter", "epoch", "checkpoint", "ckpt", "batch"};
  if (!last_integer(name)) return false;
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return is_digits(name) || std::ranges::any_of(kWords, [&](std::string_view word) { return lower.find(word) != lower.npos; });
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
