#include "output_name.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/problem.h"
#include "base/working_names.h"

namespace dcp::cmd {

void check_folder_name(const std::string& out) {
  std::string ending = std::filesystem::path(out).extension();
  for (char& c : ending) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  for (const char* of_file : {".pt", ".pth", ".bin", ".ckpt", ".safetensors"}) {
    if (ending != of_file) continue;
    Problem p = make_problem(ProblemId::usage, {.path = out}, "the name of a file", "a folder");
    p.hint = "consolidate and convert write files";
    throw Error(std::move(p));
  }
}

void check_writable(const std::string& out_as_given, bool is_folder) {
  std::error_code ignored;
  const std::string out = without_trailing_slashes(out_as_given);
  const bool in_place = is_folder && std::filesystem::is_directory(out, ignored) && std::filesystem::is_empty(out, ignored);
  const std::string folder = in_place ? out : folder_around(out);
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return;
  fail(ProblemId::io_create, {.path = out}, std::strerror(errno));
}

}  // namespace dcp::cmd
