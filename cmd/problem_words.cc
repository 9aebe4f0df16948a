#include "problem_words.h"

#include <algorithm>

#include "base/working_names.h"

namespace dcp::cmd {
namespace {

struct Words {
  ProblemId id;
  std::string_view text, hint;
};

constexpr Words kWords[] = {
#define DCPCTL_WORDS(id, text, hint) {ProblemId::id, text, hint},
#include "problem_words.def"
#undef DCPCTL_WORDS
};

// "dir/.out.pt.dcpctl-partial" is "dir/out.pt" to who typed that; so is the lock beside it, and the one in a folder.
std::string without_working_names(const std::string& path) {
  std::string text;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    std::string_view part = std::string_view(path).substr(at, end - at);
    for (const std::string_view ending : {kPartial, kLock})
      if (part.starts_with('.') && part.ends_with(ending))
        part = part.size() == ending.size() ? "" : part.substr(1, part.size() - 1 - ending.size());
    if (at == 0) text = part;
    else if (!part.empty()) text.append("/").append(part);
    at = end + 1;
  }
  return text;
}

std::string filled(std::string_view hint, const std::vector<std::string>& names) {
  const size_t at = hint.find("{}");
  if (at == hint.npos) return std::string(hint);
  return names.empty() ? "" : std::string(hint.substr(0, at)) + names[0] + std::string(hint.substr(at + 2));
}

}  // namespace

Problem worded(Problem p) {
  if (exit_of(p.id) == Exit::kMachine) p.place.path = without_working_names(p.place.path);
  for (const Words& w : kWords) {
    if (w.id != p.id) continue;
    const bool is_known = p.id == ProblemId::manifest_key_lacking && p.severity == Severity::kNote;  // --subset was given
    if (!w.text.empty() && p.what == text_of(p.id)) p.what = w.text;
    if (p.hint.empty() && !is_known) p.hint = filled(w.hint, p.names);
  }
  return p;
}

}  // namespace dcp::cmd
