#include "base/working_names.h"

#include <algorithm>

#include "base/sums.h"

namespace dcp {

bool is_working_name(std::string_view name) { return name.starts_with('.') && (name.ends_with(kPartial) || name.ends_with(kOld)); }

std::string_view scheme_of(std::string_view path) {
  const std::string_view scheme = path.substr(0, path.find(':'));
  if (!path.substr(scheme.size()).starts_with("://")) return {};
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_later = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.'; };
  return !scheme.empty() && is_letter(scheme[0]) && std::ranges::all_of(scheme, is_later) ? scheme : std::string_view();
}

size_t root_bytes(std::string_view path) {
  const size_t scheme = scheme_of(path).size();
  return scheme > 0 ? scheme + 3 : 1;
}

std::string without_trailing_slashes(std::string path) {
  while (path.size() > root_bytes(path) && path.ends_with('/')) path.pop_back();
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
