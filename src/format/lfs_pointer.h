// A Git LFS pointer: three lines of text that a clone holds in place of a large file that was not fetched. Source: git-lfs, docs/spec.md:
// the first line is `version https://git-lfs.github.com/spec/v1`, a pointer has less than 1024 bytes.
#pragma once

#include "base/bytes.h"

namespace dcp {

inline constexpr uint64_t kLfsPointerBytes = 1024;

inline bool is_lfs_pointer(Bytes file) {
  return file.size() <= kLfsPointerBytes && as_text(file).starts_with("version https://git-lfs.github.com/spec/v");
}

}  // namespace dcp
