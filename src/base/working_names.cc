#include "base/working_names.h"

#include "base/sums.h"

namespace dcp {

bool is_working_name(std::string_view name) { return name.starts_with('.') && (name.ends_with(kPartial) || name.ends_with(kOld)); }

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string folder_around(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : without_trailing_slashes(path.substr(0, slash + 1));
}

SplitPath split_path(const std::string& path) {
  const size_t name = path.rfind('/') + 1;  // npos + 1 is 0
  return {path.substr(0, name), path.substr(name)};
}

std::string beside(const std::string& path, std::string_view ending) {
  constexpr size_t kMaxName = 255;        // NAME_MAX of Linux
  const size_t at = path.rfind('/') + 1;  // npos + 1 is 0
  std::string name = path.substr(at);
  if (1 + name.size() + ending.size() > kMaxName) {
    const std::string sum = "-" + std::to_string(crc32(as_bytes(name)));
    name = name.substr(0, kMaxName - 1 - sum.size() - ending.size()) + sum;
  }
  return path.substr(0, at) + "." + name + std::string(ending);
}

}  // namespace dcp
