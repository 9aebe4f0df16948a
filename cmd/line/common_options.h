// The options that every command takes.
#pragma once

#include <cstdint>
#include <string>

namespace dcp::cmd {

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

}  // namespace dcp::cmd
