#include "line/problem_words.h"

#include <algorithm>
#include <array>

#include "base/file_names.h"
#include "base/limits.h"
#include "base/text.h"
#include "inputs/open.h"
#include "line/context.h"
#include "line/exit_status.h"
#include "line/option_values.h"
#include "select/training_state.h"

namespace dcp::cmd {
namespace {

struct Words {
  ProblemId id;
  std::string_view text, hint;
};

constexpr Words kWords[] = {
#define DCPCTL_WORDS(id, text, hint) {ProblemId::id, text, hint},
#define DCPCTL_REMEDY(remedy, what, expected, hint)
#include "line/problem_words.def"
#undef DCPCTL_REMEDY
#undef DCPCTL_WORDS
};

struct RemedyWords {
  Remedy remedy;
  std::string_view what, expected, hint;
};

constexpr auto kRemedyWords = std::to_array<RemedyWords>({
#define DCPCTL_WORDS(id, text, hint)
#define DCPCTL_REMEDY(remedy, what, expected, hint) {Remedy::remedy, what, expected, hint},
#include "line/problem_words.def"
#undef DCPCTL_REMEDY
#undef DCPCTL_WORDS
});

constexpr bool all_in_order() {
  for (size_t i = 0; i < kRemedyWords.size(); ++i)
    if (static_cast<size_t>(kRemedyWords[i].remedy) != i + 1) return false;
  return kRemedyWords.back().remedy == kLastRemedy;
}
static_assert(all_in_order());

// "dir/.out.pt.dcpctl-partial" is "dir/out.pt" to who typed that; so is the lock beside it, and the one in a folder.
std::string without_working_names(const std::string& path) {
  if (!scheme_of(path).empty()) return path;
  std::string text;
  bool is_first = true;
  for (std::string_view part : split(path, '/')) {
    for (const std::string_view ending : {kPartial, kLock})
      if (part.starts_with('.') && part.ends_with(ending))
        part = part.size() == ending.size() ? "" : part.substr(1, part.size() - 1 - ending.size());
    if (std::exchange(is_first, false)) text = part;
    else if (!part.empty()) text.append("/").append(part);
  }
  return text;
}

// What stands in a hint for `field`, the text between braces. Nothing: not known.
std::string value_of(std::string_view field, const Problem& p) {
  if (field == "all") return some_of(p.names);
  if (field.empty()) return p.names.empty() ? "" : p.names[0];
  return p.enough_bytes == 0 ? "a larger " + std::string(field) : std::string(field) + " " + std::to_string(p.enough_bytes / kMiB) + "MiB";
}

std::string hint_for(std::string_view words, const Problem& p) {
  const size_t begin = words.find('{'), end = words.find('}');
  if (begin == words.npos) return std::string(words);
  const std::string value = value_of(words.substr(begin + 1, end - begin - 1), p);
  return value.empty() ? "" : std::string(words.substr(0, begin)) + value + std::string(words.substr(end + 1));
}

void add_remedy(Problem& p) {
  const RemedyWords& w = kRemedyWords[static_cast<size_t>(p.remedy) - 1];
  if (!w.what.empty() && p.what == text_of(p.id)) p.what = w.what;
  if (const size_t at = w.expected.find("{}"); at != w.expected.npos)
    p.expected = std::string(w.expected.substr(0, at)) + p.expected + std::string(w.expected.substr(at + 2));
  else if (!w.expected.empty()) p.expected = w.expected;
  if (!w.hint.empty()) p.hint = hint_for(w.hint, p);
  p.remedy = Remedy::kOfId;
}

}  // namespace

std::string option_of(std::string_view setting) {
  std::string option = "--" + std::string(setting);
  std::ranges::replace(option, '_', '-');
  return option;
}

Problem worded(Problem p) {
  if (p.remedy != Remedy::kOfId) add_remedy(p);
  if (!p.place.setting.empty() && !p.place.setting.starts_with('-')) p.place.setting = option_of(p.place.setting);
  if (class_of(p.id) == ProblemClass::kMachine) p.place.path = without_working_names(p.place.path);
  for (const Words& w : kWords) {
    if (w.id != p.id) continue;
    const bool is_known = p.id == ProblemId::manifest_key_lacking && p.severity == Severity::kNote;  // --subset was given
    if (!w.text.empty() && p.what == text_of(p.id)) p.what = w.text;
    if (p.hint.empty() && !is_known) p.hint = hint_for(w.hint, p);
  }
  return p;
}

static bool holds_model(Store& store, const std::string& checkpoint) try {
  return !find_training_state(read_checkpoint(store, checkpoint, {}).catalog).models.empty();
} catch (const Error&) {
  return true;
}

Exit exit_of(const Problem& p) { return p.what == kHungUp ? Exit::kHungUp : exit_of(p.id); }

std::string commands_of_parts(const Context& context, const Problem& problem) {
  std::string before = "dcpctl", after;
  bool has_run = false;
  for (size_t w = 0; w < context.words.size(); ++w) {
    const std::string& word = context.words[w];
    const bool is_of_run = word == "--step" || word == "--pattern";
    if (is_of_run) ++w;  // with its value
    if (is_of_run || word.starts_with("--step=") || word.starts_with("--pattern=") || word == "--json") continue;
    const bool is_run = !has_run && !context.sources.empty() && word == context.sources[0];
    has_run = has_run || is_run;
    if (!is_run) (has_run ? after : before) += " " + shell_word(word);
  }
  if (!has_run) before = "dcpctl " + context.command;
  std::vector<std::string> parts = problem.names;
  if (std::ranges::find(context.words, "--model-only") != context.words.end())
    std::erase_if(parts, [&](const std::string& part) { return !holds_model(context.store, part); });
  // Alternatives: pasted together they are an error, and not one output that replaces the other.
  std::string commands;
  for (const std::string& part : parts) commands += (commands.empty() ? "" : ", or ") + before + " " + shell_word(part) + after;
  return commands;
}

static void problem_members(JsonWriter& json, const Problem& raw) {
  const Problem p = worded(raw);
  json.member("message", to_line(p));
  if (const std::string path = who_or_where(p.place); !path.empty()) json.member("path", path);
  if (p.place.offset) json.member("offset", *p.place.offset);
  if (p.place.length) json.member("length", *p.place.length);
  if (p.place.line > 0) json.member("line", p.place.line);
  if (p.place.column > 0) json.member("column", p.place.column);
  if (!p.place.tensor.empty()) json.member(p.place.object ? "object" : "tensor", p.place.tensor);
  if (!p.keys.empty()) {
    json.member("keys", p.keys);
  }
  if (!p.got.empty()) json.member("got", p.got);
  if (!p.expected.empty()) json.member("expected", p.expected);
  if (!p.hint.empty()) json.member("hint", p.hint);
}

void error_json(JsonWriter& json, const Problem& p) {
  json.begin_object().member("code", static_cast<int>(exit_of(p))).member("id", id_name(p.id));
  problem_members(json, p);
  json.end_object();
}

void finding_json(JsonWriter& json, const Problem& p) {
  constexpr std::string_view kSeverities[] = {"note", "warning", "damage", "error"};
  json.begin_object().member("id", id_name(p.id)).member("severity", kSeverities[static_cast<size_t>(p.severity)]);
  problem_members(json, p);
  json.end_object();
}

}  // namespace dcp::cmd
