#include "sandbox.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/sandbox.h"
#include "base/working_names.h"
#include "layout_flags.h"
#include "ranks/launcher.h"

namespace dcp::cmd {
namespace {

namespace fs = std::filesystem;

// A declaration is the option's type, as CLI11 calls it; the help shows its option_text instead.
constexpr std::string_view kReads = "path to read", kWrites = "path to write";

// What a path to a checkpoint stands for beyond itself.
void add_source_paths(const fs::path& path, bool is_run, std::vector<std::string>& read) {
  std::error_code ignored;
  const std::string name = path.filename();
  if (name == ".metadata" || name.ends_with(".index.json")) {  // the files it speaks of
    read.push_back(folder_around(path));
    return add_source_paths(read.back(), false, read);
  }
  if (!fs::is_directory(path, ignored)) return;
  read.push_back(path / ".." / ".." / "blobs");  // of the Hugging Face cache: snapshots/REVISION/NAME -> ../../blobs/HASH
  if (!is_run) return;
  for (const fs::directory_entry& e : fs::directory_iterator(path, ignored))
    if (e.is_symlink(ignored) && e.is_directory(ignored)) read.push_back(e.path());  // steps that lie elsewhere
}

// An output is made beside its name, and in it where it is a folder already.
void add_output_paths(const std::string& value, std::vector<std::string>& write) {
  std::error_code ignored;
  const std::string path = without_trailing_slashes(value);
  write.push_back(folder_around(path));
  if (fs::is_directory(path, ignored)) write.push_back(path);
}

Sandbox needs_of(const CLI::App& command, Io& io) {
  // Of the system: peak memory, the number of processors, what memory there is.
  Sandbox needs{.read = {"/proc/self", "/sys/devices/system/cpu", "/sys/fs/cgroup"}, .write = {}};
  const bool is_run = command.get_option_no_throw("--step") != nullptr && command.count("--step") > 0;
  needs.read_everything = command.get_option_no_throw("--follow-links") != nullptr && command.count("--follow-links") > 0;
  const auto add_read = [&](const std::string& value) {
    const std::string path = without_trailing_slashes(value);
    needs.read.push_back(path);
    add_source_paths(path, is_run, needs.read);
  };
  for (const CLI::Option* option : command.get_options()) {
    const std::optional<Access> access = access_of(*option);
    if (!access) continue;
    for (const std::string& value : option->results()) {
      if (*access == Access::kWrite) {
        add_output_paths(value, needs.write);
        continue;
      }
      add_read(value);
      if (option->get_name() == "--layout") add_read(checkpoint_of_layout(io, value));
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
           })
        .has_value();
  } catch (const Error&) {  // launchers that contradict each other: whoever works with ranks says so
    return true;
  }
}

}  // namespace

CLI::Option* reads(CLI::Option* option) { return option->type_name(std::string(kReads)); }
CLI::Option* writes(CLI::Option* option) { return option->type_name(std::string(kWrites)); }

std::optional<Access> access_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type == kReads) return Access::kRead;
  if (type == kWrites) return Access::kWrite;
  return std::nullopt;
}

void add_sandbox(CLI::App& command, Context& context) {
  using Choices = std::vector<std::pair<std::string, When>>;
  command
      .add_option("--sandbox", context.common.sandbox,
                  "Confine the process to what the command line names: auto (where the kernel can), on or off")
      ->transform(CLI::CheckedTransformer(Choices{{"auto", When::kAuto}, {"on", When::kAlways}, {"off", When::kNever}}))
      ->option_text("WHEN")
      ->group("Source");
}

void enter_sandbox_of(const CLI::App& app, const Context& context) {
  const When when = context.common.sandbox;
  for (const CLI::App* command : app.get_subcommands()) {
    if (command->get_option_no_throw("--sandbox") == nullptr || when == When::kNever) continue;
    if (when == When::kAuto && is_one_of_several()) continue;
    const bool confined = enter_sandbox(needs_of(*command, context.io));
    if (!confined && when == When::kAlways) fail(ProblemId::sandbox_lacking, {});
    if (context.common.verbose > 1)
      context.note(confined ? "confined to what the command line names" : "not confined: this kernel has no Landlock");
  }
}

}  // namespace dcp::cmd
