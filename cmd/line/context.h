// The outside world of the running command: where it reads, and how its answers, notes and failures are output.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/world.h"
#include "net/settings.h"

namespace dcp::net {
class Http;
}

namespace dcp::cmd {

// The options that every command takes.
struct Command;

enum class When : uint8_t { kAuto, kAlways, kNever };
enum class ProgressForm : uint8_t { kAuto, kBar, kPlain, kJson, kNone };

struct CommonOptions {
  bool json = false;
  bool quiet = false;
  int verbose = 0;
  When color = When::kAuto;
  ProgressForm progress = ProgressForm::kAuto;
  bool no_pager = false;
  When sandbox = When::kAuto;
  std::string report;  // "": not given
};

// `writer`: also those of commands that write or take long.
void add_common(Command& command, CommonOptions& options, bool writer);

// The outside world of the running command, and its output: to the terminal, and for the report.
struct Context final : Events, World {
  Context(Store& the_store, Io& the_io, StopFlag& the_stop)
      : World(the_store, the_io, the_stop, *this),
        network(std::make_shared<net::Settings>(net::Settings{.variable = {}, .module_folders = {}, .stop = the_stop})) {}
  CommonOptions common;
  std::vector<std::string> words;          // what was typed, after the program's name
  std::vector<std::string> sources;        // the checkpoints that are read, as typed
  std::string command;                     // "consolidate"
  std::vector<std::string> notes;          // the texts of info(), for the report
  int report_fd = -1;                      // receives the report instead of the file of --report
  size_t paged_columns = 0;                // of the terminal, if standard output goes there through a pager
  bool several = false;                    // one of several checkpoints that the command line names
  std::shared_ptr<net::Settings> network;  // what its stores are told
  std::shared_ptr<net::Http> http;         // what they send their requests by, if they are the program's own
  bool is_later = false;                   // and one before it has answered
  mutable bool apart = false;              // separate the next output from the previous answer by an empty line

  void print(std::string_view text) const;       // stdout, the answer; throws io_write when it cannot be written
  void info(std::string_view text) override;     // stderr, one line, unless --quiet
  void verbose(std::string_view text) override;  // stderr, with -v
  void warn(std::string_view text) override;     // stderr, one line, always
  void status(std::string_view text);            // stderr, one line, unless --quiet; not for the report
  // Also says how much is going to be read over the network, if that is much.
  std::unique_ptr<Display> show(const Progress& progress, const std::atomic<uint64_t>& done, uint64_t total) override;
  void last_words(const Problem& problem) override;
  Problem worded(Problem problem) const override;
  std::string name_of(std::string_view setting) const override;
  bool at_terminal(int fd) const;
  bool colored(int fd) const;    // --color; `auto`: a terminal, and neither NO_COLOR nor TERM=dumb
  size_t columns(int fd) const;  // of the terminal; elsewhere 80
};

// Of the documents of the command: "dcpctl.bench.io/1".
std::string schema_of(const Context& context);

// Renders a failure on stderr (and as the JSON object of --json) and returns its exit code, which g_reported_exit then has.
inline std::atomic<int> g_reported_exit = 0;
int report_error(const Context& context, const Problem& problem);
int report_error(const Context& context, const std::exception& error);

}  // namespace dcp::cmd
