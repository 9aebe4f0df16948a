#include "inputs/run.h"

#include <algorithm>
#include <functional>
#include <regex>

#include "base/decimal.h"
#include "base/working_names.h"
#include "catalog/structure.h"

namespace dcp {
namespace {

std::optional<uint64_t> last_integer(std::string_view name) {
  const auto end = name.find_last_of("0123456789");
  if (end == std::string_view::npos) return std::nullopt;
  const auto before = name.find_last_not_of("0123456789", end);
  const size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return decimal<uint64_t>(name.substr(begin, end + 1 - begin));
}

std::regex compiled(const std::string& pattern) {
  try {
    std::regex regex(pattern);
    if (regex.mark_count() == 1) return regex;
  } catch (const std::regex_error&) {
  }
  fail(ProblemId::usage, {.setting = "pattern"}, "'" + pattern + "'", "a regular expression with one group, for the step's number");
}

// For messages: all of them, or the newest.
std::string numbers_of(const std::vector<Step>& steps) {
  constexpr size_t kMax = 8;
  if (steps.empty()) return "folders whose names hold a step's number";
  std::string text = steps.size() > kMax ? "one of ..., " : "one of ";
  for (size_t i = steps.size() - std::min(steps.size(), kMax); i < steps.size(); ++i)
    text += std::to_string(steps[i].number) + (i + 1 < steps.size() ? ", " : "");
  return text;
}

// The last step, and another of its number: accelerate's model and optimizer, say.
void refuse_ambiguous(const std::vector<Step>& steps, const std::string& run) {
  if (steps.size() < 2 || steps[steps.size() - 2].number != steps.back().number) return;
  fail(ProblemId::step_ambiguous, {.path = run}, "'" + steps[steps.size() - 2].path + "' and '" + steps.back().path + "'");
}

// Or like what a save that was cut short leaves of one.
bool looks_like_checkpoint(Store& store, const std::string& path) {
  for (const DirEntry& e : store.list(path))
    if (const FileRole role = role_of(e.name);
        e.kind == FileKind::kRegular && (describes_checkpoint(e.name) || role == FileRole::kUnfinished || role == FileRole::kData))
      return true;
  return false;
}

// FSDP with transformers or accelerate keeps model and optimizer apart.
std::vector<std::string> inner_checkpoints(Store& store, const std::string& step) {
  std::vector<std::string> parts;
  for (const DirEntry& e : store.list(step)) {
    if (e.kind != FileKind::kDirectory || e.link) continue;
    const std::string path = step + "/" + e.name;
    if (looks_like_checkpoint(store, path)) parts.push_back(path);
  }
  std::ranges::stable_sort(parts, {}, [&](const std::string& path) { return path.find("optim", step.size()) != path.npos; });
  return parts;
}

std::vector<Step> steps_where(Store& store, const std::string& run, const std::string& pattern,
                              const std::function<bool(const std::string& path)>& is_step) {
  std::optional<std::regex> regex;
  if (!pattern.empty()) regex = compiled(pattern);
  // What cannot be looked into may be a step; who opens it says what is wrong with it.
  const auto is_or_cannot_be_seen = [&](const std::string& path) {
    try {
      return is_step(path);
    } catch (const Error& e) {
      if (e.problem().id != ProblemId::io_list) throw;
      return true;
    }
  };
  std::vector<Step> steps;
  for (const DirEntry& e : store.list(run)) {
    if (e.kind != FileKind::kDirectory || is_working_name(e.name)) continue;
    std::smatch match;
    std::optional<uint64_t> number;
    if (!regex) number = last_integer(e.name);
    else if (std::regex_search(e.name, match, *regex)) number = decimal<uint64_t>(match[1].str());
    const std::string path = run + "/" + e.name;
    if (number && is_or_cannot_be_seen(path)) steps.push_back({.number = *number, .path = path, .broken = std::nullopt});
  }
  std::ranges::stable_sort(steps, {}, &Step::number);
  return steps;
}

// No folder of the run is a step by itself: the one that is wanted may be in parts.
[[noreturn]] void refuse_parts(Store& store, const std::string& step) {
  Problem p = make_problem(ProblemId::step_in_parts, {.path = step});
  p.names = inner_checkpoints(store, step);
  throw Error(std::move(p));
}

}  // namespace

bool is_checkpoint_folder(Store& store, const std::string& path) {
  return std::ranges::any_of(store.list(path),
                             [](const DirEntry& e) { return e.kind == FileKind::kRegular && describes_checkpoint(e.name); });
}

std::vector<Step> steps_of(Store& store, const std::string& run, const std::string& pattern) {
  return steps_where(store, run, pattern, [&](const std::string& path) { return looks_like_checkpoint(store, path); });
}

std::vector<Step> all_steps_of(Store& store, const std::string& run, const std::string& pattern) {
  std::vector<Step> steps = steps_of(store, run, pattern);
  if (!steps.empty()) return steps;
  return steps_where(store, run, pattern, [&](const std::string& path) { return !inner_checkpoints(store, path).empty(); });
}

std::vector<std::string> parts_of(Store& store, const std::string& step) {
  return looks_like_checkpoint(store, step) ? std::vector<std::string>{} : inner_checkpoints(store, step);
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

std::string find_step(Store& store, const StepQuery& query, const OpenOptions& options, std::vector<Step>& broken) {
  const auto& [given, wanted, pattern] = query;
  const std::string run = without_trailing_slashes(given);
  if (!store.facts(run)) fail(ProblemId::no_such_path, {.path = run});
  std::vector<Step> steps = all_steps_of(store, run, pattern);
  const bool in_parts = !steps.empty() && steps_of(store, run, pattern).empty();
  const auto fault_of = [&](const std::string& step) -> std::optional<Problem> {
    if (!in_parts) return why_broken(store, step, options);
    for (const std::string& part : inner_checkpoints(store, step))
      if (auto fault = why_broken(store, part, options)) return fault;
    return std::nullopt;
  };
  const std::string there = numbers_of(steps);
  const bool latest = wanted == "latest";
  const std::optional<uint64_t> number = latest ? std::nullopt : decimal<uint64_t>(wanted);
  if (!latest && !number) fail(ProblemId::usage, {.setting = "step"}, wanted, "a number or 'latest'");
  for (; !steps.empty(); steps.pop_back()) {
    Step& s = steps.back();
    if (!latest && s.number != *number) continue;
    if (latest) s.broken = fault_of(s.path);
    if (!s.broken) {
      if (in_parts) refuse_parts(store, s.path);
      refuse_ambiguous(steps, run);
      return s.path;
    }
    broken.push_back(s);
  }
  Problem p = make_problem(ProblemId::step_missing, {.path = run}, latest ? "no complete step" : wanted, there);
  if (is_checkpoint_folder(store, run)) p.remedy = Remedy::kNoStep;
  throw Error(std::move(p));
}

}  // namespace dcp
