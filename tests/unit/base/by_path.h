// Calls of Io that take a name in an open folder, for tests that have a path.
#pragma once

#include <string>

#include "base/io.h"

namespace dcp::test {

inline Handle create_file(Io& io, const std::string& path) {
  const NameIn at = open_parent(io, path);
  return io.create(at.folder.get(), at.name);
}
inline std::optional<Handle> open_to_write(Io& io, const std::string& path) {
  const NameIn at = open_parent(io, path);
  return io.open_write(at.folder.get(), at.name);
}
// Both in one folder.
inline void rename(Io& io, const std::string& from, const std::string& to, Replace replace) {
  const NameIn at = open_parent(io, from);
  io.rename(at.folder.get(), at.name, open_parent(io, to).name, replace);
}
inline void remove_file(Io& io, const std::string& path) {
  const NameIn at = open_parent(io, path);
  io.remove_file(at.folder.get(), at.name);
}
inline void remove_folder(Io& io, const std::string& path) {
  const NameIn at = open_parent(io, path);
  io.remove_folder(at.folder.get(), at.name);
}

}  // namespace dcp::test
