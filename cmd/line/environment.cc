#include "line/environment.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace dcp::cmd {

std::vector<std::string> module_folders() {
  std::vector<std::string> folders;
  if (const char* given = std::getenv("DCPCTL_MODULE_DIR"); given != nullptr && *given != '\0') folders.emplace_back(given);
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  folders.push_back(program.string());
  // A wheel that somebody has unpacked has the program in scripts/, and what else is installed in data/.
  const std::string_view installed = program.filename() == "scripts" ? "../data" : "..";
  folders.push_back((program / installed / DCPCTL_MODULE_DIR).lexically_normal().string());
  return folders;
}

std::optional<std::string> variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<Launch> launch_here() {
  return find_launch([](const char* name) { return variable(name); });
}

}  // namespace dcp::cmd
