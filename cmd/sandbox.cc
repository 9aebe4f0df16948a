#include "sandbox.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/sandbox.h"
#include "ranks/launcher.h"

namespace dcp::cmd {
namespace {

namespace fs = std::filesystem;

// Values that are paths, as the command line calls them, and those among them that are written.
constexpr std::string_view kPaths[] = {"A", "B", "CKPT", "CKPT2", "DIR", "FILE", "OUT", "REF", "RUN", "SRC"};
constexpr std::string_view kWritten[] = {"OUT", "--report", "--manifest", "--html"};

bool among(const auto& names, std::string_view name) { return std::ranges::find(names, name) != std::end(names); }

std::string folder_of(const fs::path& path) {
  std::error_code ignored;
  const std::string parent = fs::weakly_canonical(path, ignored).parent_path();
  return parent.empty() ? "." : parent;
}

// What a path to a checkpoint stands for beyond itself.
void add_source_paths(const fs::path& path, bool is_run, std::vector<std::string>& read) {
  std::error_code ignored;
  const std::string name = path.filename();
  if (name == ".metadata" || name.ends_with(".index.json")) read.push_back(folder_of(path));  // the files it speaks of
  if (!fs::is_directory(path, ignored)) return;
  read.push_back(path / ".." / ".." / "blobs");  // of the Hugging Face cache: snapshots/REVISION/NAME -> ../../blobs/HASH
  if (!is_run) return;
  for (const fs::directory_entry& e : fs::directory_iterator(path, ignored))
    if (e.is_symlink(ignored) && e.is_directory(ignored)) read.push_back(e.path());  // steps that lie elsewhere
}

Sandbox needs_of(const CLI::App& command) {
  // Of the system: peak memory, and the number of processors.
  Sandbox needs{.read = {"/proc/self", "/sys/devices/system/cpu"}, .write = {}};
  const bool is_run = command.get_option_no_throw("--step") != nullptr && command.count("--step") > 0;
  needs.read_everything = command.get_option_no_throw("--follow-links") != nullptr && command.count("--follow-links") > 0;
  for (const CLI::Option* option : command.get_options()) {
    const std::string text = option->get_option_text().empty() ? option->get_name(true) : option->get_option_text();
    if (!among(kPaths, text)) continue;
    const bool written = among(kWritten, text) || among(kWritten, option->get_name());
    for (const std::string& value : option->results()) {
      if (!written) {
        needs.read.push_back(value);
        add_source_paths(value, is_run, needs.read);
        continue;
      }
      needs.write.push_back(folder_of(value));
      std::error_code ignored;
      if (fs::is_directory(value, ignored)) needs.write.push_back(value);
    }
  }
  return needs;
}

// Under a launcher the modules open libraries and sockets of their own.
bool is_one_of_several() {
  try {
    return find_launch([](const char* name) {
             const char* value = std::getenv(name);
             return value ? std::optional<std::string>(value) : std::nullopt;
           }).has_value();
  } catch (const Error&) {  // launchers that contradict each other: whoever works with ranks says so
    return true;
  }
}

}  // namespace

void add_sandbox(CLI::App& command, Context& context) {
  using Choices = std::vector<std::pair<std::string, When>>;
  command.add_option("--sandbox", context.common.sandbox, "Confine the process to what the command line names: auto (where the kernel can), on or off")
      ->transform(CLI::CheckedTransformer(Choices{{"auto", When::kAuto}, {"on", When::kAlways}, {"off", When::kNever}}))
      ->option_text("WHEN")
      ->group("Source");
}

void enter_sandbox_of(const CLI::App& app, const Context& context) {
  const When when = context.common.sandbox;
  for (const CLI::App* command : app.get_subcommands()) {
    if (command->get_option_no_throw("--sandbox") == nullptr || when == When::kNever) continue;
    if (when == When::kAuto && is_one_of_several()) continue;
    const bool confined = enter_sandbox(needs_of(*command));
    if (!confined && when == When::kAlways) fail(ProblemId::sandbox_lacking, {});
    if (context.common.verbose > 1) context.note(confined ? "confined to what the command line names" : "not confined: this kernel has no Landlock");
  }
}

}  // namespace dcp::cmd
