#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/error_line.h"
#include "file_set_cases.h"

using namespace dcp;
using namespace dcp::test;
using IoOp = dcp::test::Op;

TEST_CASE("leftovers are removed and named") {
  FakeIo io;
  io.put("dir/.out.dcpctl-partial/a.distcp", "half");
  io.put("dir/.out.dcpctl-lock", "");
  {
    const FileSet set(io, "dir/out", {{"", 3}}, {});  // whatever kind the interrupted run's output was
    CHECK(set.found() == std::vector<std::string>{"removed 'dir/.out.dcpctl-partial', left by an interrupted run"});
  }
  CHECK(world_of(io).empty());
  io.put("dir/in/.a.distcp.dcpctl-partial", "half");
  io.put("dir/in/.dcpctl-lock", "");
  const FileSet set(io, "dir/in", kThree, {.folder = true});
  CHECK(set.found() == std::vector<std::string>{"removed 'dir/in/.a.distcp.dcpctl-partial', left by an interrupted run"});
}

// What somebody who may write into the folder, too, can put where an interrupted run would have left something.
TEST_CASE("what no interrupted run of this user can have left stays, is named, and keeps the output from being written") {
  const auto refusal = [](const std::function<void(FakeIo&)>& plant, bool in_place = false) {
    FakeIo io;
    io.put("dir/other", "x");
    if (in_place) io.put_folder("dir/out");
    plant(io);
    const World before = world_of(io);
    const std::string line = error_line([&] { FileSet(io, "dir/out", kThree, {.folder = true}); });
    CHECK(world_of(io) == before);
    CHECK(error_id([&] { FileSet(io, "dir/out", kThree, {.folder = true}); }) == "leftover_foreign");
    CHECK(io.open_handles() == 0);
    return line;
  };
  const std::string says = ": has the name of a working file of the output, and was not left by an interrupted dcpctl of this user ";
  const auto foreign = [](const std::string& path) {
    return [path](FakeIo& io) {
      io.put(path, "x");
      io.give_to(path, 7);
    };
  };
  CHECK(refusal(foreign("dir/.out.dcpctl-partial")) ==
        "dir/.out.dcpctl-partial" + says + "(got a file of user 7, expected a file of user 1000)");
  CHECK(refusal(foreign("dir/out/.a.distcp.dcpctl-partial"), true) ==
        "dir/out/.a.distcp.dcpctl-partial" + says + "(got a file of user 7, expected a file of user 1000)");
  CHECK(refusal(foreign("dir/.out.dcpctl-partial/a.distcp")) ==
        "dir/.out.dcpctl-partial/a.distcp" + says + "(got a file of user 7, expected a file of user 1000)");
  CHECK(refusal([](FakeIo& io) {
          io.put("dir/.out.dcpctl-partial/a.distcp", "x");
          io.give_to("dir/.out.dcpctl-partial", 7);
        }) == "dir/.out.dcpctl-partial" + says + "(got a folder of user 7, expected a folder of user 1000)");
  CHECK(refusal([](FakeIo& io) {
          io.put("dir/.out.dcpctl-partial/a.distcp", "x");
          io.put("dir/.out.dcpctl-partial/b/a.distcp", "x");
        }) == "dir/.out.dcpctl-partial/b" + says + "(got a folder of user 1000, expected a file of user 1000)");
  CHECK(refusal([](FakeIo& io) { io.put("dir/.out.dcpctl-partial/thesis.tex", "x"); }) ==
        "dir/.out.dcpctl-partial/thesis.tex" + says + "(got a file that is not part of a checkpoint)");
  CHECK(refusal([](FakeIo& io) { io.put("dir/.out.dcpctl-lock", "mine"); }) ==
        "dir/.out.dcpctl-lock" + says + "(got a file of 4 bytes, expected an empty file)");
  CHECK(refusal([](FakeIo& io) { io.put("dir/.out.dcpctl-old", "x"); }) == "dir/.out.dcpctl-old" + says + "(expected a folder)");
}

TEST_CASE("a leftover that becomes another folder while it is cleared: nothing in that one is touched") {
  FakeIo io;
  io.put("dir/.out.dcpctl-partial/a.distcp", "half");
  io.put("dir/precious/a.distcp", "x");
  io.before = [&](IoOp op, uint64_t k) {
    if (op != IoOp::kRemoveFile || k != 0) return;
    io.move("dir/.out.dcpctl-partial", "dir/aside");
    io.move("dir/precious", "dir/.out.dcpctl-partial");
  };
  CHECK(error_id([&] { FileSet(io, "dir/out", kThree, {.folder = true}); }) == "leftover_foreign");
  CHECK(world_of(io) == World{{"dir/.out.dcpctl-partial/a.distcp", "x"}});
}

// Before each call in turn, every name of what is being written comes to mean something else; or those in a folder that gets its name as a whole.
void swap_before_each_call(const Case& c, const std::vector<std::string>& names, bool folders) {
  bool finished = false, refused = false;
  for (uint64_t n = 0; !finished; ++n) {
    INFO(c.name << ", swapped before call " << n);
    FakeIo io;
    c.set_up(io);
    uint64_t calls = 0;
    io.before = [&](IoOp, uint64_t) {
      if (calls++ != n) return;
      for (const std::string& name : names) {
        if (!io.exists(name)) continue;
        io.move(name, "dir/aside-" + std::to_string(name.size()));
        io.put(folders ? name + "/a.distcp" : name, "evil");
      }
    };
    const std::string id = error_id([&] { c.run(io); });
    finished = calls <= n;
    World seen = without_ours(world_of(io));
    for (const auto& [path, text] : seen)
      if (path.starts_with("dir/out")) CHECK(text != "evil");
    std::erase_if(seen, [](const auto& entry) { return entry.first.starts_with("dir/aside"); });
    if (id.empty()) CHECK(seen == c.after);
    else if (c.options.replace == Replace::kNo || c.options.folder) CHECK((seen == c.before || seen == c.after));
    refused = refused || id == "output_swapped";
    CHECK((id.empty() ? "output_swapped" : id) == "output_swapped");
    CHECK(io.open_handles() == 0);
  }
  // A file that gets its name from its handle, and is never opened again, has no name that matters.
  CHECK(refused == (!c.can_link || c.options.folder || c.options.replace == Replace::kYes));
}

TEST_CASE("what another program puts in the place of what was written never becomes the output") {
  for (const Case& c : kCases) {
    const bool folder = c.options.folder && !c.empty_folder;
    swap_before_each_call(c, {"dir/.out.dcpctl-partial", "dir/out/.a.distcp.dcpctl-partial", "dir/out/..metadata.dcpctl-partial"}, folder);
    if (folder) swap_before_each_call(c, {"dir/.out.dcpctl-partial/a.distcp", "dir/.out.dcpctl-partial/.metadata"}, false);
  }
}

TEST_CASE("files that were closed for want of descriptors are the same when they are opened again") {
  FakeIo io;
  io.put_folder("dir");
  FileSet set(io, "dir/out", kThree, {.folder = true, .open_files = 1});
  io.move("dir/.out.dcpctl-partial/a.distcp", "dir/aside");
  CHECK(error_line([&] { write_text(set, 0, "abc"); }) ==
        "dir/.out.dcpctl-partial/a.distcp: is no longer what was written: another program has replaced it (got nothing)");
  io.put("dir/.out.dcpctl-partial/a.distcp", "other");
  CHECK(error_id([&] { write_text(set, 0, "abc"); }) == "output_swapped");
  CHECK(io.text_of("dir/.out.dcpctl-partial/a.distcp") == "other");
  set.abort();
  CHECK(world_of(io) == World{{"dir/.out.dcpctl-partial/a.distcp", "other"}, {"dir/aside", std::string(5, '\0')}});
}

TEST_CASE("a folder moved aside by an interrupted run comes back") {
  FakeIo io;
  io.put("dir/.out.dcpctl-old/a.distcp", "older");
  CHECK(error_line([&] { FileSet(io, "dir/out", kThree, {.folder = true}); }) ==
        "dir/out: the output exists (got a folder that is not empty)");
  CHECK(world_of(io) == World{{"dir/out/a.distcp", "older"}});

  io.put("dir/.out.dcpctl-old/b.distcp", "oldest");
  const FileSet set(io, "dir/out", kThree, {.folder = true, .replace = Replace::kYes});
  CHECK(set.found() == std::vector<std::string>{"removed 'dir/.out.dcpctl-old', replaced by an interrupted run"});
  CHECK(io.text_of("dir/out/a.distcp") == "older");
}
