// Names of what lies beside an output while it is written: `.NAME.dcpctl-...`. Hidden, so that `*.pt` and `*.safetensors` never pick it up.
#pragma once

#include <string>
#include <string_view>

namespace dcp {

// What is being written; the old output, moved aside; the lock of who writes.
inline constexpr std::string_view kPartial = ".dcpctl-partial", kOld = ".dcpctl-old", kLock = ".dcpctl-lock";

// "/" stays as it is.
std::string without_trailing_slashes(std::string path);

// The name beside `path` (without '/' at its end). Of a NAME that leaves no room for the ending: its beginning and its CRC.
std::string beside(const std::string& path, std::string_view ending);

}  // namespace dcp
