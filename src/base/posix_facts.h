// Linux's facts about files as Io's types, and its errors as Problems.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "base/io.h"
#include "base/posix_calls.h"

namespace dcp::posix {

// "permission denied"
std::string reason_of(int error);
// `error` is a parameter because building the place may change errno. A full disk is io_no_space, whatever `id` is.
[[noreturn]] void io_fail(ProblemId id, Place place, int error);
[[noreturn]] void io_fail(ProblemId id, const std::string& path, int error);

const char* kind_text(mode_t mode);  // for anything but a regular file: "a folder"
FileFacts facts_of(const struct stat& status);

// The entries of the folder open as `fd`, sorted by name. Throws io_list.
std::vector<DirEntry> entries_of(Fd fd, const std::string& folder);

}  // namespace dcp::posix
