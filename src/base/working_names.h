// Names of what lies beside an output while it is written: `.NAME.dcpctl-...`. Hidden, so that `*.pt` and `*.safetensors` never pick it up.
#pragma once

#include <string>
#include <string_view>

namespace dcp {

// What is being written; the old output, moved aside; the lock of who writes.
inline constexpr std::string_view kPartial = ".dcpctl-partial", kOld = ".dcpctl-old", kLock = ".dcpctl-lock";

// Of something that dcpctl works on, or has moved aside.
bool is_working_name(std::string_view name);

// "/" stays as it is.
std::string without_trailing_slashes(std::string path);

// Where `path` (without '/' at its end) is a name: its text up to the last component, "." where it is all there is. As the system reads it:
// links and `..` are followed by whoever opens it.
std::string folder_around(const std::string& path);

struct SplitPath {
  std::string prefix;  // up to and with the last '/', or ""
  std::string name;
};
SplitPath split_path(const std::string& path);

// The name beside `path` (without '/' at its end). Of a NAME that leaves no room for the ending: its beginning and its CRC.
std::string beside(const std::string& path, std::string_view ending);

}  // namespace dcp
