#include "line/context.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "app/fit_map.h"
#include "base/file_names.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"
#include "inputs/open.h"
#include "inputs/run.h"
#include "line/command.h"
#include "line/exit_status.h"
#include "line/lines.h"
#include "line/network.h"
#include "line/option_values.h"
#include "line/problem_words.h"
#include "line/progress.h"

namespace dcp::cmd {

void add_common(Command& c, CommonOptions& o, bool writer) {
  const std::string group = "Output";
  const Choices<When> whens{{"auto", When::kAuto}, {"always", When::kAlways}, {"never", When::kNever}};
  c.flag("--json", o.json, "Print one JSON document on stdout").in(group);
  c.flag("-q,--quiet", o.quiet, "No notes, progress or closing line: the answer and errors only").in(group);
  c.flag("-v", o.verbose, "More details on stderr").also({"--verbose"}).in(group);
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
  tell_amount(*this, total);
  return std::make_unique<ProgressDisplay>(*this, progress, done, total);
}

// Of what is not there: what lies beside it under a similar name, where that can be listed.
static std::string hint_of_neighbours(const Context& context, const std::string& path) try {
  if (scheme_of(path).starts_with("http"))
    return "a web server lists no folders: give the address of one checkpoint, such as .../step-1000";
  if (!scheme_of(path).empty()) return {};
  const std::string name = split_path(path).name;
  Closest near(name);
  for (const DirEntry& e : context.store.list(folder_around(path))) near.offer(e.name);
  return near.found().empty() ? "" : "did you mean " + path.substr(0, path.size() - name.size()) + near.found() + "?";
} catch (const Error&) {
  return {};
}

// Of what was typed in the place of a checkpoint, while one stands in that of the output, or of the key.
static std::string hint_of_swap(const Context& context, const Problem& p) try {
  if (context.sources.size() != 1 || context.several) return {};
  std::vector<std::string> words = context.words;
  const auto source = std::ranges::find(words, context.sources.front());
  const auto other = std::find_if(source, words.end(), [&](const std::string& w) { return w != *source && !w.starts_with('-'); });
  const bool is_of_other = p.id == ProblemId::usage && other != words.end() && p.place.path == *other && is_checkpoint_name(*source);
  const bool is_of_source = (p.id == ProblemId::no_such_path || p.id == ProblemId::not_checkpoint) && p.place.path == *source;
  const bool is_in_place = p.id == ProblemId::output_exists && other != words.end() && p.place.path == *other;
  if (other == words.end() || (!is_of_other && !is_of_source && !(is_in_place && !context.store.facts(*source))) ||
      !scheme_of(*other).empty())
    return {};
  if (!is_checkpoint_folder(context.store, *other)) return {};
  std::swap(*source, *other);
  std::string line = "dcpctl";
  for (const std::string& word : words) line += " " + shell_word(word);
  return "arguments swapped? '" + line + "'";
} catch (const Error&) {
  return {};
}

// The folder around a data file, or a checkpoint in one file.
static std::string checkpoint_of(const Context& context, const std::string& file) try {
  if (std::ranges::find(context.sources, file) != context.sources.end()) return file;
  const std::string around = folder_around(file);
  return is_checkpoint_folder(context.store, around) ? around : file;
} catch (const Error&) {
  return file;
}

// What a model lacks may be in another one, where the command takes it from there.
static std::string hint_of_fill(const Problem& p) {
  const std::string hint = "--fill-from MODEL takes what is missing from another model";
  if (!p.hint.empty() || !p.names.empty() || p.remedy != Remedy::kOfId) return p.hint;
  if (p.id == ProblemId::map_tensor_missing) return hint;
  return p.id == ProblemId::model_differs && p.got == kNoSuchTensor ? hint + ", --map none writes what is there" : "";
}

Problem Context::worded(Problem problem) const {
  if (command == "consolidate" || command == "convert") problem.hint = hint_of_fill(problem);
  if (problem.id == ProblemId::terminated && stop.load() == SIGHUP) problem.what = kHungUp;
  if (problem.id == ProblemId::step_in_parts && problem.hint.empty()) problem.hint = commands_of_parts(*this, problem);
  if (const std::string swapped = hint_of_swap(*this, problem); !swapped.empty()) problem.hint = swapped;
  if (problem.id == ProblemId::map_auto_none && problem.got.ends_with("which has no map"))
    problem.hint = "--map none, or no --map, takes the names as they are; 'dcpctl maps' lists the maps: --map NAME, or a file of your own";
  if (problem.id == ProblemId::no_such_path && problem.hint.empty()) problem.hint = hint_of_neighbours(*this, problem.place.path);
  if (problem.id == ProblemId::key_missing && problem.what == text_of(problem.id) && command != "extract" &&
      problem.got.find_first_of("*?") != problem.got.npos && problem.hint.empty())
    problem.hint = "a key is meant as it stands: --include and --exclude take patterns";
  // Where the data of a key is damaged, others may be whole.
  constexpr std::string_view kRestore = "restore it from the original";
  if (command != "verify" && !problem.place.tensor.empty() && problem.hint.ends_with(kRestore)) {
    problem.hint += "; 'dcpctl verify " + shell_word(checkpoint_of(*this, problem.place.path)) + "' says what of it is whole";
  }
  if (problem.id == ProblemId::not_checkpoint && problem.expected == "a folder of checkpoints" && problem.got == "a checkpoint")
    problem.hint += "; 'dcpctl inspect " + shell_word(problem.place.path) + "' looks into this one";
  problem = cmd::worded(std::move(problem));
  constexpr std::string_view kExclude = "leave the key out with --exclude";
  if (command == "extract" && problem.hint.starts_with(kExclude))
    problem.hint = "the commands that write a model leave it out with --exclude";
  return problem;
}

std::string schema_of(const Context& context) {
  std::string command = context.command;
  for (const std::string& word : context.words)  // before the command line is understood
    if (command.empty() && std::ranges::find(command_names(), word, &CommandName::path) != command_names().end()) command = word;
  std::ranges::replace(command, ' ', '.');
  return "dcpctl." + (command.empty() ? "usage" : command) + "/1";
}

std::string Context::name_of(std::string_view setting) const { return option_of(setting); }

void Context::last_words(const Problem& problem) {
  report_error(*this, problem);
  std::_Exit(static_cast<int>(Exit::kRank));
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

}  // namespace

// Hints show command lines with CKPT in them: here it is known which.
static std::string hint_text(const Context& context, const Problem& p) {
  std::string hint = p.hint;
  size_t at = hint.find(" CKPT ");
  if (at == hint.npos) at = hint.find(" CKPT'");
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
  if (context.common.json)
    text += json_document([&](JsonWriter& json) {
      error_json(json.member("schema", schema_of(context)).member("exit", static_cast<int>(exit_of(p))).key("error"), p);
    });
  if (context.prints) write_fd(STDERR_FILENO, text);
  return g_reported_exit = static_cast<int>(exit_of(p));
}

int report_error(const Context& context, const std::exception& error) { return report_error(context, problem_of(error)); }

}  // namespace dcp::cmd
