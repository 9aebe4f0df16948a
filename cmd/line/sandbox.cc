#include "line/sandbox.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "app/ranked_run.h"
#include "base/file_names.h"
#include "base/sandbox.h"
#include "base/stores.h"
#include "catalog/kind.h"
#include "line/environment.h"

namespace dcp::cmd {
namespace {

namespace fs = std::filesystem;

// What a path to a checkpoint stands for beyond itself.
void add_source_paths(const fs::path& path, bool is_run, std::vector<std::string>& read) {
  std::error_code ignored;
  const std::string name = path.filename();
  if (is_metadata_name(name)) {  // the files it speaks of
    read.push_back(folder_around(path));
    return add_source_paths(read.back(), false, read);
  }
  if (!fs::is_directory(path, ignored)) {
    if (const fs::path config = path.parent_path() / "config.json"; fs::exists(config, ignored))
      read.push_back(config);  // of a model in one file
    return;
  }
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

Sandbox needs_of(const Command& command, Store& store) {
  // Of the system: peak memory, the number of processors, what memory there is.
  Sandbox needs{.read = {"/proc/self", "/sys/devices/system/cpu", "/sys/fs/cgroup"}, .write = {}};
  std::vector<std::string> read;
  std::error_code ignored;
  bool is_run = false;
  const auto add = [&](const Option& option) {
    if (option.given.empty() || !option.access) return;
    is_run |= *option.access == Access::kSteps || *option.access == Access::kRun || *option.access == Access::kChange;
    needs.read_everything |= *option.access == Access::kEverywhere;
    for (const std::string& value : option.given) {
      if (*option.access == Access::kWrite && value != "-") add_output_paths(value, needs.write);
      if (*option.access == Access::kChange && scheme_of(value).empty()) needs.write.push_back(value);
      if (*option.access == Access::kWrite || *option.access == Access::kSteps || *option.access == Access::kEverywhere) continue;
      read.push_back(value);
      if (option.leads_to) read.push_back(option.leads_to(store, value));
    }
  };
  for (const Option& o : command.options) add(o);
  for (const Option& a : command.arguments) add(a);
  bool is_any_port = false;
  for (const std::string& value : read) {
    if (!scheme_of(value).empty()) {
      ReadCapabilities other = store.read_capabilities(value);
      needs.network |= other.network;
      is_any_port |= other.network && other.ports.empty();
      std::ranges::move(other.ports, std::back_inserter(needs.ports));
      std::ranges::move(other.files, std::back_inserter(needs.read));
      continue;
    }
    needs.read.push_back(without_trailing_slashes(value));
    // What is not there is granted by the folder that it will lie in (list --wait), or lies in under another name.
    while (!fs::exists(needs.read.back(), ignored)) needs.read.back() = folder_around(needs.read.back());
    add_source_paths(needs.read.back(), is_run, needs.read);
  }
  if (is_any_port) needs.ports.clear();
  return needs;
}

}  // namespace

// Under a launcher the modules open libraries and sockets of their own.
bool is_one_of_several() {
  try {
    return launch_here().has_value();
  } catch (const Error&) {  // launchers that contradict each other: whoever works with ranks says so
    return true;
  }
}

void add_sandbox(Command& c, Context& context) {
  const Choices<When> whens{{"auto", When::kAuto}, {"on", When::kAlways}, {"off", When::kNever}};
  c.choice("--sandbox", context.common.sandbox, whens, "WHEN",
           "Confine the process to what the command line names: auto (where the kernel can), on or off")
      .in("Source");
}

void check_outputs_of(const Command& command, Context& context) {
  for (const auto* all : {&command.options, &command.arguments})
    for (const Option& o : *all)
      for (const std::string& value : o.given)
        if (o.access == Access::kWrite) check_on_disk(context.store, value);
}

void enter_sandbox_of(Command& command, Context& context) {
  const When when = context.common.sandbox;
  if (command.find("--sandbox") == nullptr || when == When::kNever) return;
  if (when == When::kAuto && is_one_of_several()) return;
  const Sandbox needs = needs_of(command, context.store);
  const bool confined = enter_sandbox(needs);
  if (!confined && when == When::kAlways) fail(ProblemId::sandbox_lacking, {});
  if (context.common.verbose < 2) return;
  context.info(confined ? "confined to what the command line names" : "not confined: this kernel has no Landlock");
  if (confined && needs.network && landlock_version() < 4) context.info("TCP is not confined: that takes Linux 6.7");
}

}  // namespace dcp::cmd
