// Each way to use the sink of files, and what files there are.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "base/fake_io.h"
#include "exec/written.h"

namespace dcp::test {

using World = std::map<std::string, std::string>;  // what every file holds

inline World world_of(const FakeIo& io) {
  World world;
  for (const std::string& path : io.paths()) world[path] = io.text_of(path);
  return world;
}

inline bool is_ours(const std::string& path) { return path.find("dcpctl-") != std::string::npos; }

inline World without_ours(World world) {
  std::erase_if(world, [](const auto& entry) { return is_ours(entry.first); });
  return world;
}

// One way to use the sink: what lies there before, and what lies there after.
struct Case {
  const char* name;
  FileSetOptions options;
  World before, after;
  bool empty_folder = false;
  bool can_link = true;

  void set_up(FakeIo& io) const {
    for (const auto& [path, text] : before) io.put(path, text);
    if (empty_folder) io.put_folder("dir/out");
    io.can_link = can_link;
  }
  void run(FakeIo& io, Replace replace) const {
    FileSetOptions with = options;
    with.open_files = 1;  // each write opens its file anew
    with.replace = replace;
    FileSet set(io, "dir/out", with.folder ? kThree : std::vector<FileSpec>{{"", 3}}, with);
    fill(set, with.folder);
    set.finish();
    set.commit();
  }
  void run(FakeIo& io) const { run(io, options.replace); }
};

inline const World kBeside = {{"dir/other", "x"}};
inline const World kNewFile = {{"dir/other", "x"}, {"dir/out", "new"}};
inline const World kNewFolder = {{"dir/other", "x"}, {"dir/out/.metadata", "met"}, {"dir/out/a.distcp", "abcde"}, {"dir/out/b.distcp", ""}};

inline const std::array<Case, 7> kCases = {{
    {"a new file", {}, kBeside, kNewFile},
    {"a file replaced", {.replace = Replace::kYes}, {{"dir/other", "x"}, {"dir/out", "older"}}, kNewFile},
    {"a new folder", {.folder = true}, kBeside, kNewFolder},
    {"a folder replaced", {.folder = true, .replace = Replace::kYes}, {{"dir/other", "x"}, {"dir/out/old.distcp", "older"}}, kNewFolder},
    {"an empty folder filled", {.folder = true}, kBeside, kNewFolder, true},
    {"a new file, without links", {}, kBeside, kNewFile, false, false},
    {"an empty folder filled, without links", {.folder = true}, kBeside, kNewFolder, true, false},
}};

}  // namespace dcp::test
