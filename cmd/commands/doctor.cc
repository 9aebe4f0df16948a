// dcpctl doctor: what this build and machine have.
#include "app/doctor.h"

#include <unistd.h>

#include <cstdlib>

#include "line/commands.h"
#include "line/environment.h"
#include "line/lines.h"
#include "report/doctor_report.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Prints what this build and this machine have, what they lack, and the package or option that provides it: modules (opened with
everything they need), LibTorch, NCCL, the driver and GPUs, processor cores and memory that the process may use, its limits, the sandbox of
the kernel, and what the file system of PATH can do. PATH is a folder or a file in it (default: the working folder); its file system is
tried with files of a few bytes, which are removed afterwards.

The exit code is 0 whatever is missing: nearly all of dcpctl needs none of it. Include the output of --json in bug reports.

  dcpctl doctor
  dcpctl doctor step-1000
  dcpctl doctor --json >doctor.json)";

struct Options {
  std::string path;
};

int run(const Options& o, Context& context) {
  // LibTorch writes its own stack to stderr where something fails.
  ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);
  DoctorResult found;
  doctor({.folder = o.path.empty() ? "." : o.path, .module_folders = module_folders()}, context, found);
  if (context.common.json) doctor_json(found, [&](std::string_view text) { context.print(text); });
  else context.print(fitted(context, doctor_text(found), STDOUT_FILENO));
  return 0;
}

}  // namespace

void add_doctor(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  c.details = kText;
  c.argument("PATH", options->path, "A folder, or a file in it").reads(Offer::kFolders);
  add_common(c, context.common, false);
  c.run = [options, &context] { return run(*options, context); };
}

}  // namespace dcp::cmd
