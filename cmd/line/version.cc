// dcpctl version: what a report of a fault begins with.
#include "base/json.h"
#include "commit.h"  // made by cmake/commit.cmake
#include "line/commands.h"
#include "line/environment.h"
#include "line/program.h"
#include "modules/loader.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Prints what --version prints: the version, the commit that it was built from, the compiler, and the modules that
are found beside it.

  dcpctl version
  dcpctl version --json)";

}  // namespace

std::string program_commit() { return DCPCTL_COMMIT; }

std::string program_version() {
  const std::string commit = program_commit();
  return DCPCTL_VERSION + (commit.empty() ? "" : " (commit " + commit + ")");
}

int print_version(const Context& context) {
  const std::map<std::string, std::string> modules = modules_in(module_folders());
  if (!context.common.json) {
    std::string names;
    for (const auto& [name, path] : modules) names += (names.empty() ? "" : ", ") + name;
    context.print("dcpctl " + program_version() +
                  "\ncompiler: " DCPCTL_COMPILER ", " DCPCTL_MACHINE "\nmodules: " + (names.empty() ? "none" : names) + "\n");
    return 0;
  }
  JsonWriter json([&](std::string_view text) { context.print(text); });
  json.begin_object().member("schema", "dcpctl.version/1").member("version", DCPCTL_VERSION);
  if (const std::string commit = program_commit(); !commit.empty()) json.member("commit", commit);
  json.member("compiler", DCPCTL_COMPILER).member("machine", DCPCTL_MACHINE);
  json.key("modules").begin_array();
  for (const auto& [name, path] : modules) json.begin_object().member("name", name).member("path", path).end_object();
  json.end_array().end_object();
  json.finish();
  return 0;
}

void add_version(Command& c, Context& context) {
  c.details = kText;
  c.flag("--json", context.common.json, "Print one JSON document on stdout");
  c.run = [&context] { return print_version(context); };
}

}  // namespace dcp::cmd
