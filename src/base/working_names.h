// Names of working files beside an output: `.NAME.dcpctl-...`. Hidden, so that `*.pt` and `*.safetensors` never match them.
#pragma once

#include <string>
#include <string_view>

namespace dcp {

// The output being written; the old output, moved aside; the writer's lock.
inline constexpr std::string_view kPartial = ".dcpctl-partial", kOld = ".dcpctl-old", kLock = ".dcpctl-lock";

// The name of something that dcpctl works on, or has moved aside.
bool is_working_name(std::string_view name);

// NAME of a path `NAME://...`, which belongs to the store of this name; "" of a path on disk.
std::string_view scheme_of(std::string_view path);
// What a path keeps whatever is taken off its end: `NAME://`, or '/'.
size_t root_bytes(std::string_view path);

// A root stays as it is.
std::string without_trailing_slashes(std::string path);

// The parent of `path` (without a trailing '/'): its text up to the last component, "." if there is only one. Purely textual: links and
// `..` are resolved by whoever opens it.
std::string folder_around(const std::string& path);

struct SplitPath {
  std::string prefix;  // up to and including the last '/', or ""
  std::string name;
};
SplitPath split_path(const std::string& path);

// The working name beside `path` (without a trailing '/'). A NAME too long for the ending is cut to its beginning and its CRC.
std::string beside(const std::string& path, std::string_view ending);

}  // namespace dcp
