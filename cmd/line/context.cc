#include "line/context.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "base/limits.h"
#include "line/command.h"
#include "line/lines.h"
#include "line/option_values.h"
#include "line/problem_words.h"
#include "line/progress.h"

namespace dcp::cmd {
bool write_fd(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      if (fd == STDOUT_FILENO && errno != EPIPE)  // the reader has seen enough: no failure of ours
        fail(ProblemId::io_write, {.path = "standard output"}, std::strerror(errno));
      return false;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void Context::print(std::string_view text) const {
  if (!prints || text.empty()) return;
  if (std::exchange(apart, false)) write_fd(STDOUT_FILENO, "\n");
  write_fd(STDOUT_FILENO, text);
}

void Context::info(std::string_view text) {
  notes.emplace_back(text);
  status(text);
}

void Context::status(std::string_view text) {
  if (!common.quiet) warn(text);
}

void Context::warn(std::string_view text) {
  constexpr std::string_view kWarning = "warning:";
  const bool is_warning = text.starts_with(kWarning);
  const std::string word = is_warning ? styled(kWarning, Style::kYellow, colored(STDERR_FILENO)) : "";
  const std::string line = "dcpctl: " + word + std::string(text.substr(is_warning ? kWarning.size() : 0)) + "\n";
  if (prints) write_fd(STDERR_FILENO, fitted(*this, line, STDERR_FILENO));
}

void Context::verbose(std::string_view text) {
  if (common.verbose > 0) status(text);
}

bool Context::at_terminal(int fd) const { return (fd == STDOUT_FILENO && paged_columns > 0) || isatty(fd); }

bool Context::colored(int fd) const {
  if (common.color != When::kAuto) return common.color == When::kAlways;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return at_terminal(fd) && (!no_color || !*no_color) && term && std::string_view(term) != "dumb";
}

size_t Context::columns(int fd) const {
  if (fd == STDOUT_FILENO && paged_columns > 0) return paged_columns;
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::unique_ptr<Display> Context::show(const Progress& progress, const std::atomic<uint64_t>& done, uint64_t total) {
  return std::make_unique<ProgressDisplay>(*this, progress, done, total);
}

Problem Context::worded(Problem problem) const {
  if (problem.id == ProblemId::step_in_parts && problem.hint.empty()) problem.hint = commands_of_parts(*this, problem);
  return cmd::worded(std::move(problem));
}

std::string Context::name_of(std::string_view setting) const { return option_of(setting); }

void Context::last_words(const Problem& problem) {
  report_error(*this, problem);
  std::_Exit(static_cast<int>(Exit::kRank));
}

std::string styled(std::string_view text, Style style, bool color) {
  if (!color) return std::string(text);
  constexpr std::string_view kCodes[] = {"1", "1;31", "1;33", "1;32"};
  return std::string("\033[").append(kCodes[static_cast<size_t>(style)]).append("m").append(text).append("\033[0m");
}

namespace {

// The line that the problem is about and a mark under its column:
//   12 | a.{l}.w [(h d] = b.{l}.w
//      |         ^
std::string quoted(const Problem& p) {
  if (p.quote.empty() || p.place.line == 0) return {};
  const std::string number = std::to_string(p.place.line);
  std::string text = "  " + number + " | " + escaped(p.quote) + "\n";
  if (p.place.column == 0) return text;
  const std::string before = escaped(std::string_view(p.quote).substr(0, p.place.column - 1));
  const auto code_points = std::ranges::count_if(before, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return text + std::string(number.size() + 2, ' ') + " | " + std::string(static_cast<size_t>(code_points), ' ') + "^\n";
}

void problem_members(JsonWriter& json, const Problem& raw) {
  const Problem p = worded(raw);
  json.member("message", to_line(p));
  if (const std::string path = who_or_where(p.place); !path.empty()) json.member("path", path);
  if (p.place.offset) json.member("offset", *p.place.offset);
  if (p.place.length) json.member("length", *p.place.length);
  if (p.place.line > 0) json.member("line", p.place.line);
  if (p.place.column > 0) json.member("column", p.place.column);
  if (!p.place.tensor.empty()) json.member(p.place.object ? "object" : "tensor", p.place.tensor);
  if (!p.keys.empty()) {
    json.key("keys").begin_array();
    for (const std::string& key : p.keys) json.value(key);
    json.end_array();
  }
  if (!p.hint.empty()) json.member("hint", p.hint);
}

}  // namespace

void error_json(JsonWriter& json, const Problem& p) {
  json.begin_object().member("code", static_cast<int>(exit_of(p.id))).member("id", id_name(p.id));
  problem_members(json, p);
  json.end_object();
}

void finding_json(JsonWriter& json, const Problem& p) {
  constexpr std::string_view kSeverities[] = {"note", "warning", "damage", "error"};
  json.begin_object().member("id", id_name(p.id)).member("severity", kSeverities[static_cast<size_t>(p.severity)]);
  problem_members(json, p);
  json.end_object();
}

// Hints show command lines with CKPT in them: here it is known which.
static std::string hint_text(const Context& context, const Problem& p) {
  std::string hint = p.hint;
  const size_t at = hint.find(" CKPT ");
  const std::string& source = context.sources.size() == 1 ? context.sources[0] : p.place.path;
  if (at != std::string::npos && !source.empty()) hint.replace(at + 1, 4, shell_word(source));
  return hint;
}

int report_error(const Context& context, const Problem& raw) {
  Problem p = context.worded(raw);
  p.hint = hint_text(context, p);
  const auto line = [&](const std::string& text) { return fitted(context, text + "\n", STDERR_FILENO); };
  std::string text = line(styled("dcpctl:", Style::kRed, context.colored(STDERR_FILENO)) + " " + to_line(p)) + quoted(p);
  if (!p.hint.empty()) text += line("hint: " + escaped(p.hint));
  if (context.common.json) {
    JsonWriter json([&](std::string_view s) { text += s; });
    json.begin_object().key("error");
    error_json(json, p);
    json.end_object();
    json.finish();
  }
  if (context.prints) write_fd(STDERR_FILENO, text);
  return static_cast<int>(exit_of(p.id));
}

int report_error(const Context& context, const std::exception& error) { return report_error(context, problem_of(error)); }

void add_common(Command& c, Context& context, bool writer) {
  CommonOptions& o = context.common;
  const std::string group = "Output";
  const Choices<When> whens{{"auto", When::kAuto}, {"always", When::kAlways}, {"never", When::kNever}};
  c.flag("--json", o.json, "Print one JSON document on stdout").in(group);
  c.flag("-q,--quiet", o.quiet, "No notes, progress or closing line: the answer and errors only").in(group);
  c.flag("-v", o.verbose, "More details on stderr").in(group);
  c.choice("--color", o.color, whens, "WHEN", "Colours: auto, always or never").in(group);
  c.flag("--no-pager", o.no_pager, "No pager ($DCPCTL_PAGER, $PAGER or less) at a terminal").in(group);
  if (!writer) return;
  const Choices<ProgressForm> forms{{"auto", ProgressForm::kAuto},
                                    {"bar", ProgressForm::kBar},
                                    {"plain", ProgressForm::kPlain},
                                    {"json", ProgressForm::kJson},
                                    {"none", ProgressForm::kNone}};
  c.option("--report", o.report, "FILE", "Write the JSON document to FILE in every outcome").writes().in(group);
  c.choice("--progress", o.progress, forms, "FORM", "Progress on stderr: auto, bar, plain, json or none").in(group);
}

void add_selection(Command& c, SelectionFlags& flags) {
  const auto add = [&](const char* name, KeyRule::Kind kind, const char* value, const char* help) {
    Option& o = c.option(name, [&flags, kind](const std::string& text) { return flags.given.push_back({kind, text}), true; }, value, help);
    o.repeatable = true;
    o.offers(Offer::kKeys).or_empty().in("Which keys");
  };
  add("--include", KeyRule::Kind::kInclude, "GLOB",
      "Keep keys that match GLOB (* crosses dots), or all below a dict of that name; repeatable, last match wins");
  add("--exclude", KeyRule::Kind::kExclude, "GLOB",
      "Leave out keys that match GLOB, or all below a dict of that name; repeatable, last match wins");
  add("--key", KeyRule::Kind::kKey, "KEY", "Keep this exact key; repeatable");
}

RenameRule parse_rename(const std::string& text) {
  const size_t arrow = text.find("=>");
  if (arrow == std::string::npos || arrow == 0) fail(ProblemId::usage, {}, "--rename '" + text + "'", "REGEX=>REPL");
  return {text.substr(0, arrow), text.substr(arrow + 2)};
}

std::map<std::string, std::string> read_rename_map(Store& store, const std::string& path) {
  const std::vector<std::byte> bytes = read_file(store, path, Limits{}.json_bytes);
  try {
    return nlohmann::json::parse(as_text(bytes)).get<std::map<std::string, std::string>>();
  } catch (const nlohmann::json::exception&) {
    fail(ProblemId::usage, {.path = path}, "a file that is not a JSON object of strings");
  }
}

uint64_t parse_size(const std::string& text) {
  struct Unit {
    std::string_view name;
    uint64_t bytes;
  };
  constexpr Unit kUnits[] = {
      {"", 1},         {"b", 1},       {"k", 1024},      {"kib", 1024},      {"kb", 1000},      {"m", 1 << 20},      {"mib", 1 << 20},
      {"mb", 1000000}, {"g", 1 << 30}, {"gib", 1 << 30}, {"gb", 1000000000}, {"t", 1ull << 40}, {"tib", 1ull << 40}, {"tb", 1000000000000}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  for (char& c : unit) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  for (const Unit& u : kUnits)
    if (error == std::errc{} && u.name == unit && number >= 0 && number * static_cast<double>(u.bytes) < 9e18)
      return static_cast<uint64_t>(number * static_cast<double>(u.bytes));
  fail(ProblemId::usage, {}, "size '" + text + "'", "a number with B, k, KiB, MB, MiB, GB or GiB");
}

void text_json(JsonWriter& json, std::string_view name, const std::vector<std::string>& list) {
  json.key(name).begin_array();
  for (const std::string& text : list) json.value(text);
  json.end_array();
}

}  // namespace dcp::cmd
