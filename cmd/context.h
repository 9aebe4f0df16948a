// What every command shares: the outside world, the options that all take, and how answers and failures leave the program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/io.h"
#include "base/json.h"
#include "base/workers.h"
#include "catalog/select.h"

namespace dcp::cmd {

class Together;
struct Command;

enum class When : uint8_t { kAuto, kAlways, kNever };
enum class ProgressForm : uint8_t { kAuto, kBar, kPlain, kJson, kNone };

struct CommonOptions {
  bool json = false;
  bool quiet = false;
  int verbose = 0;
  When color = When::kAuto;
  ProgressForm progress = ProgressForm::kAuto;
  When sandbox = When::kAuto;
  std::string report;  // "": not given
};

struct Context {
  Io& io;
  StopFlag& stop;
  CommonOptions common;
  std::string command;                     // "consolidate"
  mutable std::vector<std::string> notes;  // what note() was given, for the report; from one thread
  std::shared_ptr<Together> together;      // where a launcher started several ranks (together.h)
  bool speaks = true;                      // of several ranks only rank 0 does
  bool joined = false;                     // a module is loaded: the process ends without running its threads' ends

  void out(std::string_view text) const;       // stdout, the answer; throws io_write when it cannot be written
  void note(std::string_view text) const;      // stderr, one line, unless --quiet
  void detail(std::string_view text) const;    // stderr, with -v
  void complain(std::string_view text) const;  // stderr, one line, always
  void tell(std::string_view text) const;      // stderr, one line, unless --quiet; not for the report
  bool colored(int fd) const;                  // --color; `auto`: a terminal, and neither NO_COLOR nor TERM=dumb
  size_t columns(int fd) const;                // of the terminal; elsewhere 80
  void check_stop() const;                     // throws if a signal asked to stop
};

// Text between the sequences of a style, or as it is.
enum class Style : uint8_t { kBold, kRed, kYellow };
std::string styled(std::string_view text, Style style, bool color);

// Renders a failure on stderr (and as the JSON object of --json) and returns its exit code.
int report_error(const Context& context, const Problem& problem);
int report_error(const Context& context, const std::exception& error);
Problem problem_of(const std::exception& error);
void error_json(JsonWriter& json, const Problem& problem);
void finding_json(JsonWriter& json, const Problem& problem);

void add_common(Command& command, Context& context, bool writer);

// --include, --exclude, --key, in the order given on the command line.
struct SelectionFlags {
  std::vector<KeyRule> given;
  const std::vector<KeyRule>& rules() const { return given; }
};
void add_selection(Command& command, SelectionFlags& flags);

// 'REGEX=>REPL'. Throws usage.
RenameRule parse_rename(const std::string& text);
// A JSON object of strings. Throws usage.
std::map<std::string, std::string> read_rename_map(Io& io, const std::string& path);

// 512MiB, 5GB, 64k, 1000: bytes. Throws usage.
uint64_t parse_size(const std::string& text);

// "1.5 MiB", "312 B"; "1,234,567".
std::string human_bytes(uint64_t bytes);
std::string grouped(uint64_t number);
std::string counted(uint64_t number, const char* one);  // "1 key", "2,000 keys"
// The first of them, escaped: "a, b and 7 more".
std::string list_of(const std::vector<std::string>& names, size_t most = 8);
void text_json(JsonWriter& json, std::string_view name, const std::vector<std::string>& list);
std::string rate(uint64_t bytes, uint64_t ns);  // "3.21 GB/s"
std::string seconds(uint64_t ns);               // "1.23 s"
uint64_t peak_rss_bytes();
uint64_t resident_bytes();  // now

}  // namespace dcp::cmd
