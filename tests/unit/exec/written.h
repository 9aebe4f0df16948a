// What tests of the sink write: three files of a folder, one of them empty.
#pragma once

#include <string_view>
#include <vector>

#include "files/file_set.h"

namespace dcp::test {

inline const std::vector<FileSpec> kThree = {{"a.distcp", 5}, {"b.distcp", 0}, {".metadata", 3}};

inline void write_text(FileSet& set, uint32_t file, std::string_view text) { set.write(file, 0, as_bytes(text)); }

inline void fill(FileSet& set, bool folder) {
  if (!folder) return write_text(set, 0, "new");
  set.write(0, 3, as_bytes("de"));
  write_text(set, 2, "met");
  write_text(set, 0, "abc");
}

}  // namespace dcp::test
