// Where modules (modules/loader.h) are looked for.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace dcp::cmd {

// DCPCTL_MODULE_DIR, the folder of the program, and where an installation has modules.
inline std::vector<std::string> module_folders() {
  std::vector<std::string> folders;
  if (const char* given = std::getenv("DCPCTL_MODULE_DIR"); given != nullptr && *given != '\0') folders.emplace_back(given);
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  folders.push_back(program.string());
  folders.push_back((program / ".." / DCPCTL_LIBDIR / "dcpctl").lexically_normal().string());
  return folders;
}

}  // namespace dcp::cmd
