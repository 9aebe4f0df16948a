#include "inputs/run.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "base/file_names.h"
#include "base/problem.h"
#include "base/text.h"
#include "catalog/kind.h"
#include "catalog/structure.h"
#include "inputs/dcp.h"
#include "inputs/open.h"
#include "inputs/step_notes.h"
#include "select/training_state.h"

namespace dcp {
namespace {

constexpr unsigned kPartLevels = 4;       // global_step_N/model/NAME/ckpt, and one more
constexpr unsigned kMaxFolders = 10'000;  // that a search looks into

// accelerate's folders for models, which numbers them, and their optimizers.
bool is_accelerates(std::string_view name) {
  constexpr std::string_view kModel = "pytorch_model_fsdp_";
  return name.starts_with(kModel) && is_number(name.substr(kModel.size()));
}
bool has_accelerates(const std::vector<DirEntry>& entries) {
  return std::ranges::any_of(entries, [](const DirEntry& e) { return is_accelerates(e.name); });
}

// Whether the folder is a part of a step, whatever numbers its name has.
bool says_part(std::string_view name) { return name.find("model") != name.npos || name.find("optim") != name.npos; }

// A number in any other name may count steps: nothing shows that it counts parts.
bool says_step(std::string_view name, bool in_part) { return names_step(name) || (last_integer(name) && !in_part && !says_part(name)); }

// Of one checkpoint: folders beside it may be in front of the names of its data files, with numbers of their own, as connectors of object stores
// make them to spread load.
bool is_metadata(const DirEntry& e) {
  return e.kind == FileKind::kRegular && (is_sole_metadata_name(e.name) || role_of(e.name) == FileRole::kUnfinished);
}

class Search {
 public:
  Search(Store& store, const IsOne& is_one, Closed closed) : store_(store), is_one_(is_one), closed_(closed) {}

  std::vector<std::string> run(const std::string& folder, unsigned levels) {
    below(folder, store_.list(folder), levels);
    return std::move(found_);
  }

 private:
  void below(const std::string& folder, const std::vector<DirEntry>& entries, unsigned levels) {
    for (const DirEntry& e : entries) {
      if (e.kind != FileKind::kDirectory || e.link || is_working_name(e.name)) continue;
      if (++seen_ > kMaxFolders) return;
      const std::string path = folder + "/" + e.name;
      const std::vector<DirEntry> inside = entries_of(path);
      if (is_one_(path, inside)) found_.push_back(path);
      else if (levels > 1 && std::ranges::none_of(inside, is_metadata)) below(path, inside, levels - 1);
    }
  }

  std::vector<DirEntry> entries_of(const std::string& path) {
    try {
      return store_.list(path);
    } catch (const Error& e) {
      if (closed_ == Closed::kThrow || e.problem().id != ProblemId::io_list) throw;
      return {};
    }
  }

  Store& store_;
  const IsOne& is_one_;
  const Closed closed_;
  unsigned seen_ = 0;
  std::vector<std::string> found_;
};

std::vector<std::string_view> names_from(std::string_view path, size_t at) {
  std::vector<std::string_view> names;
  for (size_t end = 0; at < path.size(); at = end + 1) {
    end = std::min(path.find('/', at), path.size());
    names.push_back(path.substr(at, end - at));
  }
  return names;
}

// Whether a folder on the way from a step to its part is a step itself.
bool leads_through_step(const std::string& part, size_t at) {
  bool in_part = false;
  for (const std::string_view name : names_from(part, at)) {
    if (says_step(name, in_part)) return true;
    in_part = in_part || says_part(name);
  }
  return false;
}

bool describes(const DirEntry& e) { return e.kind == FileKind::kRegular && describes_checkpoint(e.name); }

}  // namespace

bool is_checkpoint_folder(Store& store, const std::string& path) { return std::ranges::any_of(store.list(path), describes); }

bool has_metadata(Store& store, const std::string& folder) {
  const auto facts = store.facts(folder + "/" + std::string(kMetadata));
  return facts && facts->kind == FileKind::kRegular;
}

bool looks_like_checkpoint(const std::vector<DirEntry>& entries) {
  return std::ranges::any_of(entries, [](const DirEntry& e) {
    const FileRole role = role_of(e.name);
    return describes(e) || (e.kind == FileKind::kRegular && (role == FileRole::kUnfinished || role == FileRole::kData));
  });
}

std::vector<std::string> folders_below(Store& store, const std::string& folder, unsigned levels, const IsOne& is_one, Closed closed) {
  return Search(store, is_one, closed).run(folder, levels);
}

bool holds_data_alone(Store& store, const std::string& folder, unsigned levels) {
  for (const DirEntry& e : store.list(folder)) {
    const bool is_folder = e.kind == FileKind::kDirectory && levels > 0;
    if (e.link || !(is_folder ? holds_data_alone(store, folder + "/" + e.name, levels - 1)
                              : e.kind == FileKind::kRegular && role_of(e.name) == FileRole::kData))
      return false;
  }
  return true;
}

std::vector<std::string> parts_of(Store& store, const std::string& step) {
  if (looks_like_checkpoint(store.list(step))) return {};
  const auto is_part = [](const std::string&, const std::vector<DirEntry>& entries) { return looks_like_checkpoint(entries); };
  std::vector<std::string> parts = folders_below(store, step, kPartLevels, is_part, Closed::kThrow);
  if (std::ranges::any_of(parts, [&](const std::string& part) { return leads_through_step(part, step.size() + 1); })) return {};
  std::ranges::stable_sort(parts, {}, [&](const std::string& path) { return path.find("optim", step.size()) != path.npos; });
  return parts;
}

std::vector<std::string> checkpoints_below(Store& store, const std::string& folder) {
  constexpr unsigned kLevels = 5;
  const auto is_one = [](const std::string&, const std::vector<DirEntry>& entries) { return std::ranges::any_of(entries, describes); };
  std::vector<std::string> found = folders_below(store, folder, kLevels, is_one, Closed::kSkip);
  std::ranges::sort(found, NaturalLess());
  return found;
}

std::optional<std::string> only_checkpoint_below(Store& store, const std::string& given) {
  const std::string folder = without_trailing_slashes(given);
  const std::optional<FileFacts> facts = store.facts(folder);
  if (!facts || facts->kind != FileKind::kDirectory || has_metadata(store, folder) || looks_like_checkpoint(store.list(folder)))
    return std::nullopt;
  std::vector<std::string> found = checkpoints_below(store, folder);
  std::erase_if(found,
                [&](const std::string& path) { return std::ranges::any_of(names_from(path, folder.size() + 1), is_unfinished_name); });
  if (found.size() != 1 || leads_through_step(found[0], folder.size() + 1)) return std::nullopt;
  return std::move(found[0]);
}

namespace {

std::regex compiled(const std::string& pattern) {
  try {
    std::regex regex(pattern);
    if (regex.mark_count() == 1) return regex;
  } catch (const std::regex_error&) {
  }
  fail(ProblemId::usage, {.setting = "pattern"}, "'" + pattern + "'", "a regular expression with one group, for the step's number");
}

// For messages: all numbers, or the newest ones.
std::string numbers_of(const std::vector<Step>& steps) {
  constexpr size_t kMax = 8;
  if (steps.empty()) return "folders whose names hold a step's number";
  std::string text = steps.size() > kMax ? "one of ..., " : "one of ";
  for (size_t i = steps.size() - std::min(steps.size(), kMax); i < steps.size(); ++i)
    text += std::to_string(steps[i].number) + (i + 1 < steps.size() ? ", " : "");
  return text;
}

constexpr std::string_view kDigits = "0123456789";

// 0 and 12 of 0.12, and 05 of 1.5e-05.
bool is_in_decimal(std::string_view name, const NameDigits& n) {
  const auto is_point = [&](size_t point) {
    return point > 0 && point + 1 < name.size() && name[point] == '.' && is_digit(name[point - 1]) && is_digit(name[point + 1]);
  };
  if (is_point(n.begin + n.size) || (n.begin > 0 && is_point(n.begin - 1))) return true;
  std::string_view before = name.substr(0, n.begin);
  if (before.ends_with('-') || before.ends_with('+')) before.remove_suffix(1);
  if (before.size() < 2 || (before.back() != 'e' && before.back() != 'E')) return false;
  before.remove_suffix(1);
  const size_t begin = before.find_last_not_of(kDigits) + 1;  // npos + 1 is 0
  return begin < before.size() && is_in_decimal(name, {.begin = begin, .size = before.size() - begin});
}

// Digits of a name other than those that number the step, in a pattern.
enum class OtherDigits : uint8_t { kThese, kAny };

// A regular expression for names like this one, with a group for the digits that begin at `number`. Decimals behind it are any.
std::string pattern_for(std::string_view name, size_t number, OtherDigits others) {
  std::string regex = "^";
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(is_digit(name[at]) ? name.find_first_not_of(kDigits, at) : at + 1, name.size());
    const bool is_any =
        is_digit(name[at]) && (others == OtherDigits::kAny || (at > number && is_in_decimal(name, {.begin = at, .size = end - at})));
    if (at == number) regex += "([0-9]+)";
    else if (is_any) regex += "[0-9]+";
    else regex += (std::string_view(R"(.\+*?[](){}^$|)").find(name[at]) == name.npos ? "" : "\\") + std::string(name.substr(at, end - at));
    at = end;
  }
  return regex + "$";
}

std::string pattern_for(const std::string& name) { return pattern_for(name, step_digits(name)->begin, OtherDigits::kAny); }

// Fails if another step has the number of the last one, such as accelerate's model and optimizer.
void refuse_ambiguous(const std::vector<Step>& steps, const std::string& run) {
  if (steps.size() < 2 || steps[steps.size() - 2].number != steps.back().number) return;
  const std::string other = steps[steps.size() - 2].path;
  Problem p = make_problem(ProblemId::step_ambiguous, {.path = run}, "'" + other + "' and '" + steps.back().path + "'");
  p.names = {pattern_for(split_path(other).name)};
  throw Error(std::move(p));
}

// Whether trainers write this file last into a complete step.
bool is_mark(const DirEntry& e) { return e.kind == FileKind::kRegular && is_completion_mark(e.name); }

Problem unfinished(const std::string& folder, std::string what) {
  Problem p = make_finding(ProblemId::unfinished_save, Severity::kWarning, {.path = folder});
  p.what = std::move(what);
  p.hint = "it may still be being written: use an earlier step";
  return p;
}

// "epoch # step # ckpt" of epoch=0-step=100.ckpt: words of letters, of any alphabet, and numbers.
std::string words_of(const Step& step) {
  std::string words;
  char before = 0;
  for (const char c : split_path(step.path).name) {
    const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool is_digit = c >= '0' && c <= '9', is_letter = (lower >= 'a' && lower <= 'z') || static_cast<unsigned char>(c) >= 0x80;
    const char kind = is_digit ? '#' : is_letter ? 'a' : 0;
    if (kind != 0 && kind != before && !words.empty()) words += ' ';
    if (is_letter) words += lower;
    if (is_digit && before != '#') words += '#';
    before = kind;
  }
  return words;
}

bool are_trainers(std::string_view words) {
  constexpr std::string_view kWords[] = {"#", "step", "steps", "global", "iter", "iteration", "epoch", "checkpoint", "ckpt", "batch"};
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (std::ranges::find(kWords, words.substr(0, end)) == std::end(kWords)) return false;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return true;
}

class StepFinder {
 public:
  StepFinder(Store& store, const std::string& pattern) : store_(store) {
    if (!pattern.empty()) regex_ = compiled(pattern);
  }

  // The steps directly in this folder.
  std::vector<Step> in(const std::string& folder, const std::vector<DirEntry>& entries) const {
    std::vector<Step> all = numbered(folder, entries);
    if (std::ranges::any_of(entries, is_metadata)) std::erase_if(all, [&](const Step& s) { return !is_whole(s); });
    // Folders in an unfinished save are its ranks', unless they say that they are steps.
    if (is_unfinished_name(split_path(folder).name))
      std::erase_if(all, [](const Step& s) { return words_of(s) == "#" || !are_trainers(words_of(s)); });
    std::vector<Step> steps = all;
    std::erase_if(steps, [](const Step& s) { return !s.unfinished && !s.parts.empty(); });
    if (std::ranges::all_of(steps, &Step::unfinished)) steps = std::move(all);
    std::ranges::stable_sort(steps, {}, &Step::number);
    return steps;
  }

 private:
  // Whether it has metadata of its own.
  bool is_whole(const Step& step) const {
    const std::vector<std::string> own{step.path};
    return std::ranges::any_of(step.parts.empty() ? own : step.parts,
                               [&](const std::string& path) { return is_checkpoint_folder(store_, path); });
  }

  std::optional<uint64_t> number_of(const std::string& name) const {
    if (!regex_) return step_number(name);
    std::smatch match;
    if (!std::regex_search(name, match, *regex_)) return std::nullopt;
    static const std::regex date("[0-9]{4}([^0-9]?[0-9]{2})+");  // 2025-01-31_09-30: its digits are a number that goes up
    std::string digits = match[1].str();
    if (std::regex_match(digits, date)) std::erase_if(digits, [](char c) { return !is_digit(c); });
    return decimal<uint64_t>(digits);
  }

  std::vector<Step> numbered(const std::string& folder, const std::vector<DirEntry>& entries) const {
    std::vector<Step> steps;
    const bool is_model_beside = !regex_ && has_accelerates(entries);
    for (const DirEntry& e : entries) {
      if (e.kind != FileKind::kDirectory || is_working_name(e.name) || (e.link && is_latest_name(e.name))) continue;
      if (is_model_beside && (is_accelerates(e.name) || e.name.starts_with("optimizer_"))) continue;
      const std::optional<uint64_t> number = number_of(e.name);
      const bool is_unfinished = is_unfinished_name(e.name);
      if (!number && (!is_unfinished || regex_)) continue;
      Step step{.number = number.value_or(0), .path = folder + "/" + e.name, .unfinished = is_unfinished};
      if (is_step(step)) steps.push_back(std::move(step));
    }
    return steps;
  }

  // A folder that cannot be listed may be a step; opening it will report what is wrong.
  bool is_step(Step& step) const {
    try {
      const std::vector<DirEntry> inside = store_.list(step.path);
      if (const auto mark = std::ranges::find_if(inside, is_mark); mark != inside.end()) step.mark = mark->name;
      step.unfinished |= inside.empty() && (regex_ || names_step(split_path(step.path).name));
      if (looks_like_checkpoint(inside)) return true;
      step.parts = parts_of(store_, step.path);
      if (!step.unfinished && step.parts.empty() && (regex_ || names_step(split_path(step.path).name)) &&
          holds_data_alone(store_, step.path)) {
        step.unfinished = true;
        step.broken = unfinished(step.path, "it has data files in folders and no metadata");
      }
      return step.unfinished || !step.parts.empty();
    } catch (const Error& e) {
      if (e.problem().id != ProblemId::io_list) throw;
      return true;
    }
  }

  Store& store_;
  std::optional<std::regex> regex_;
};

bool has_finished(const std::vector<Step>& steps) { return !std::ranges::all_of(steps, &Step::unfinished); }

bool has_trainers_names(const std::vector<Step>& steps) {
  return std::ranges::any_of(steps, [](const Step& s) { return !s.unfinished && are_trainers(words_of(s)); });
}

[[noreturn]] void refuse_runs(const std::string& folder, const std::vector<std::string>& runs) {
  Problem p = make_problem(ProblemId::step_ambiguous, {.path = folder});
  p.what = "steps lie in several folders";
  p.hint = "give one of them: " + list_of(runs, 5);
  throw Error(std::move(p));
}

// Takes those out that are named in another way than the steps.
void take_one_kind(RunFolder& run) {
  std::map<std::string, std::string> kinds;  // the words, and a name with them
  for (const Step& s : run.steps)
    if (!s.unfinished) kinds.emplace(words_of(s), split_path(s.path).name);
  const auto erase_empty = [&](const std::string& words) {  // of no save that has begun under these names
    std::erase_if(run.steps, [&](const Step& s) {
      return s.unfinished && !unfinished_by_name(s.path) && words_of(s) != words && !are_trainers(words_of(s));
    });
  };
  if (kinds.size() == 1) erase_empty(kinds.begin()->first);
  if (kinds.size() < 2) return;
  const auto is_trainers = [](const auto& kind) { return are_trainers(kind.first); };
  if (std::ranges::count_if(kinds, is_trainers) != 1) {
    std::vector<std::string> names;
    for (const auto& [words, name] : kinds) names.push_back(name);
    Problem p = make_problem(ProblemId::step_ambiguous, {.path = run.folder});
    p.what = "folders whose names differ in more than their numbers are not the steps of one run: " + list_of(names, 5);
    p.names = {pattern_for(names.front())};
    throw Error(std::move(p));
  }
  const std::string steps = std::ranges::find_if(kinds, is_trainers)->first;
  erase_empty(steps);
  std::erase_if(run.steps, [&](const Step& s) {
    const bool is_beside = !s.unfinished && words_of(s) != steps;
    if (is_beside) run.beside.push_back(split_path(s.path).name);
    return is_beside;
  });
}

// Whether a word stands before a number of a name, but for signs between them, and begins there or behind another sign.
template <size_t N>
bool is_behind(const std::string& name, size_t number, const std::string_view (&words)[N]) {
  std::string before = name.substr(0, number);
  before.resize(before.find_last_not_of("=_-") + 1);  // npos + 1 is 0
  for (char& c : before) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return std::ranges::any_of(words, [&](std::string_view w) {
    return before.ends_with(w) && (before.size() == w.size() || !is_letter(before[before.size() - w.size() - 1]));
  });
}

// Of two names with the same words, in the order of their steps' numbers.
struct TwoNames {
  static constexpr std::string_view kEpochs[] = {"epoch", "ep", "e"},
                                    kMetrics[] = {"loss", "acc", "accuracy", "ppl", "score", "reward", "metric"};
  const std::string &older, &newer;

  static std::string_view value(std::string_view name, const NameDigits& n) {
    const std::string_view digits = name.substr(n.begin, n.size);
    if (is_in_decimal(name, n)) return digits;  // 0.1 is not 0.01
    return digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
  }

  // Decimals behind the step's number are metrics, and before it those that are called so: they go up and down.
  bool is_metric(const NameDigits& n, const NameDigits& step) const {
    if (!is_in_decimal(older, n) || is_in_decimal(older, step)) return false;
    size_t begin = n.begin;
    while (begin > 0 && (is_digit(older[begin - 1]) || older[begin - 1] == '.')) --begin;
    return n.begin > step.begin || is_behind(older, begin, kMetrics);
  }

  // Of the older name, the numbers beside the step's that the newer has not, and that do not go up with it as an epoch's does.
  std::vector<NameDigits> unclear() const {
    const std::vector<NameDigits> here = numbers_in(older), there = numbers_in(newer);
    const NameDigits step = *step_digits(older);
    std::vector<NameDigits> all;
    for (size_t i = 0; i < here.size(); ++i) {
      const std::string_view a = value(older, here[i]), b = value(newer, there[i]);
      const bool goes_up = is_behind(older, here[i].begin, kEpochs) && std::pair(a.size(), a) < std::pair(b.size(), b);
      if (here[i].begin != step.begin && a != b && !goes_up && !is_metric(here[i], step)) all.push_back(here[i]);
    }
    return all;
  }

  bool is_tie() const { return step_number(older) == step_number(newer); }

  // 0.5 is more than 0.25.
  bool is_of_fractions() const {
    const NameDigits step = *step_digits(older);
    return is_in_decimal(older, step) && step.size != step_digits(newer)->size;
  }
};

std::vector<std::string> names_of(const RunFolder& run) {
  std::vector<std::string> names;
  for (const Step& s : run.steps)
    if (!s.unfinished) names.push_back(split_path(s.path).name);
  return names;
}

// Whether it numbers all of these, and none like another.
bool tells_apart(const std::vector<std::string>& names, const std::string& pattern) {
  const std::regex regex(pattern);
  std::set<std::string> numbers;
  std::smatch match;
  return std::ranges::all_of(
      names, [&](const std::string& name) { return std::regex_search(name, match, regex) && numbers.insert(match[1].str()).second; });
}

// Why the numbers of the steps do not say which of two is newer: another number may count runs, or what the step's counts anew.
std::optional<Problem> why_order_is_unclear(const RunFolder& run) {
  const std::vector<std::string> names = names_of(run);
  const auto found = std::ranges::adjacent_find(names, [](const std::string& a, const std::string& b) {
    const TwoNames two{a, b};
    return two.is_tie() || two.is_of_fractions() || !two.unclear().empty();
  });
  if (found == names.end()) return std::nullopt;
  const std::string& name = *found;
  Problem p = make_problem(ProblemId::step_ambiguous, {.path = run.folder});
  p.what = "the numbers in '" + name + "' and '" + found[1] + "' do not say which is newer";
  p.remedy = Remedy::kNumberOfStep;
  const NameDigits step = *step_digits(name);
  const std::vector<NameDigits> unclear = TwoNames{name, found[1]}.unclear();
  std::vector<std::string> counting;
  if (!is_in_decimal(name, step)) {
    if (!unclear.empty()) p.names.push_back(pattern_for(name, step.begin, OtherDigits::kThese));
    counting.push_back(pattern_for(name, step.begin, OtherDigits::kAny));
  }
  for (const NameDigits& n : unclear)
    if (!is_in_decimal(name, n)) counting.push_back(pattern_for(name, n.begin, OtherDigits::kAny));
  std::ranges::copy_if(counting, std::back_inserter(p.names), [&](const std::string& c) { return tells_apart(names, c); });
  if (p.names.empty()) p.names = {"step-([0-9]+)$"};
  for (std::string& pattern : p.names) pattern = "'" + pattern + "'";
  return p;
}

// Sets `broken` for steps whose name says that they are unfinished, and for those that lack the mark of the newest marked step before them.
void judge_by_marks(std::vector<Step>& steps) {
  const Step* marked = nullptr;
  for (Step& s : steps) {
    if (s.unfinished) {
      if (!s.broken) s.broken = unfinished_by_name(s.path);
      if (!s.broken) s.broken = unfinished(s.path, "the folder is empty");
      continue;
    }
    if (!s.mark.empty()) marked = &s;
    if (marked == nullptr || !s.mark.empty() || s.number == marked->number) continue;
    s.lacks_mark = true;
    s.broken = unfinished(s.path, "it lacks " + marked->mark + ", which an older step has");
  }
}

// A step with fewer parts than the one before it was cut short between two of them. Optimizers do not count: they may have been taken out.
void judge_by_parts(std::vector<Step>& steps) {
  std::vector<std::string> before;
  for (Step& s : steps) {
    if (s.unfinished) continue;
    std::vector<std::string> here;
    for (const std::string& part : s.parts)
      if (!names_optimizer(split_path(part).name)) here.push_back(part.substr(s.path.size() + 1));
    if (!s.broken && !here.empty() && here.size() < before.size()) {
      const auto is_here = [&](const std::string& part) { return std::ranges::find(here, part) != here.end(); };
      s.lacks_mark = true;
      s.broken = unfinished(s.path, "it lacks '" + *std::ranges::find_if_not(before, is_here) + "', which the step before it has");
    }
    before = std::move(here);
  }
}

// A step that was read, and found damaged.
void judge_by_notes(Store& store, RunFolder& run) {
  const StepNotes notes = read_step_notes(store, run.folder);
  for (Step& s : run.steps) {
    if (s.broken || notes.damaged.empty()) continue;
    s.broken = noted_damage(store, notes, s.path);
    s.known_damaged = s.broken.has_value();
  }
}

// No folder of the run is a checkpoint itself, but the wanted step is in parts.
[[noreturn]] void refuse_parts(const Step& step) {
  Problem p = make_problem(ProblemId::step_in_parts, {.path = step.path});
  p.names = step.parts;
  throw Error(std::move(p));
}

std::optional<Problem> fault_of(Store& store, const Step& step, const OpenOptions& options) {
  if (step.broken) return step.broken;
  if (step.parts.empty()) return why_broken(store, step.path, options);
  for (const std::string& part : step.parts)
    if (auto fault = why_broken(store, part, options)) return fault;
  return std::nullopt;
}

// `finished` has the run's finished steps.
[[noreturn]] void refuse_step(Store& store, const RunFolder& run, const std::string& wanted, const std::vector<Step>& finished) {
  const bool latest = wanted == "latest";
  Problem p = make_problem(ProblemId::step_missing, {.path = run.folder}, latest ? "no complete step" : wanted, numbers_of(finished));
  for (const Step& s : run.steps)
    if (s.unfinished && (latest || std::to_string(s.number) == wanted))
      p.hint = "'" + s.path + "' is " +
               (unfinished_by_name(s.path) ? "of a save that did not finish; it opens where it is given itself" : "empty");
  if (is_checkpoint_folder(store, run.folder)) p.remedy = Remedy::kNoStep;
  else if (const auto below = run.steps.empty() ? checkpoints_below(store, run.folder) : std::vector<std::string>(); !below.empty())
    p.hint = "no folder here has the name of a step; checkpoints are in " + list_of(below, 5);
  throw Error(std::move(p));
}

}  // namespace

RunFolder find_run(Store& store, const std::string& given, const std::string& pattern) {
  constexpr unsigned kLevels = 4;
  const StepFinder finder(store, pattern);
  RunFolder run{.folder = without_trailing_slashes(given), .steps = {}};
  const std::vector<DirEntry> entries = store.list(run.folder);
  run.steps = finder.in(run.folder, entries);
  const bool is_here = has_finished(run.steps);
  // Checkpoints in a folder of somebody's work may have numbers in their names, too.
  if (!looks_like_checkpoint(entries) && !(is_here && (!pattern.empty() || has_trainers_names(run.steps)))) {
    const auto is_run = [&](const std::string& path, const std::vector<DirEntry>& inside) {
      const std::vector<Step> steps = finder.in(path, inside);
      return is_here ? has_trainers_names(steps) : has_finished(steps);
    };
    std::vector<std::string> runs = folders_below(store, run.folder, kLevels, is_run, Closed::kSkip);
    if (runs.size() > 1 || (is_here && !runs.empty())) refuse_runs(run.folder, runs);
    if (!runs.empty()) run = {.folder = runs.front(), .steps = finder.in(runs.front(), store.list(runs.front()))};
  }
  if (pattern.empty() && !run.steps.empty()) {
    take_one_kind(run);
    run.unclear_order = why_order_is_unclear(run);
    for (const DirEntry& e : store.list(run.folder))  // last.ckpt
      if (e.kind == FileKind::kDirectory && !e.link && !last_integer(e.name) && !is_working_name(e.name) && !is_unfinished_name(e.name) &&
          is_checkpoint_folder(store, run.folder + "/" + e.name))
        run.beside.push_back(e.name);
  }
  judge_by_marks(run.steps);
  judge_by_parts(run.steps);
  judge_by_notes(store, run);
  return run;
}

void check_order(const RunFolder& run) {
  if (run.unclear_order) throw Error(*run.unclear_order);
}

std::optional<Problem> why_broken(Store& store, const std::string& path, const OpenOptions& options) {
  try {
    const std::vector<Problem> findings = structure_findings(*open_checkpoint(store, path, options));
    const auto damage = std::ranges::find(findings, Severity::kDamage, &Problem::severity);
    return damage == findings.end() ? std::nullopt : std::optional(*damage);
  } catch (const Error& error) {
    return error.problem();
  }
}

std::optional<Problem> unfinished_by_name(const std::string& folder) {
  const std::string name = split_path(folder).name;
  if (!is_unfinished_name(name)) return std::nullopt;
  return unfinished(folder, "the folder has the name of a save that did not finish");
}

std::string find_step(Store& store, const StepQuery& query, const OpenOptions& options, std::vector<Step>& broken) {
  const auto& [given, wanted, pattern] = query;
  if (!store.facts(without_trailing_slashes(given))) fail(ProblemId::no_such_path, {.path = without_trailing_slashes(given)});
  const RunFolder run = find_run(store, given, pattern);
  std::vector<Step> steps = run.steps;
  std::erase_if(steps, [](const Step& s) { return s.unfinished; });
  const std::vector<Step> finished = steps;
  const bool latest = wanted == "latest";
  if (latest) check_order(run);
  const std::optional<uint64_t> number = latest ? std::nullopt : decimal<uint64_t>(wanted);
  if (!latest && !number) fail(ProblemId::usage, {.setting = "step"}, wanted, "a number or 'latest'");
  for (const Step& s : run.steps)
    if (latest && s.unfinished && (steps.empty() || s.number > steps.back().number)) broken.push_back(s);
  for (; !steps.empty(); steps.pop_back()) {
    Step& s = steps.back();
    if (!latest && s.number != *number) continue;
    s.broken = latest ? fault_of(store, s, options) : std::nullopt;
    if (!s.broken) {
      if (s.parts.size() > 1) refuse_parts(s);
      refuse_ambiguous(steps, run.folder);
      return s.path;
    }
    broken.push_back(s);
  }
  refuse_step(store, run, wanted, finished);
}

}  // namespace dcp
