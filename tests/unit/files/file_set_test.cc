#include "files/file_set.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error_line.h"
#include "base/fake_io.h"
#include "base/io_wrapper.h"
#include "file_set_cases.h"
#include "files/output_free.h"

using namespace dcp;
using namespace dcp::test;
using IoOp = dcp::test::Op;

namespace {

ProblemId problem_of(IoOp op) {
  switch (op) {
    case IoOp::kWrite: return ProblemId::io_write;
    case IoOp::kAllocate: return ProblemId::io_no_space;
    case IoOp::kSync:
    case IoOp::kSyncFolder: return ProblemId::io_sync;
    case IoOp::kRename:
    case IoOp::kLink: return ProblemId::io_rename;
    case IoOp::kRemoveFile:
    case IoOp::kRemoveFolder: return ProblemId::io_remove;
    case IoOp::kList: return ProblemId::io_list;
    default: return ProblemId::io_create;
  }
}

struct Stopped {};  // what the world throws once it has stopped

}  // namespace

TEST_CASE("each way of writing ends with the output and nothing else") {
  for (const Case& c : kCases) {
    INFO(c.name);
    FakeIo io;
    c.set_up(io);
    c.run(io);
    CHECK(world_of(io) == c.after);
    CHECK(io.open_handles() == 0);
    CHECK_FALSE(io.exists("dir/.out.dcpctl-partial"));
    CHECK_FALSE(io.exists("dir/.out.dcpctl-old"));
  }
}

TEST_CASE("any single call may fail, and the output is the old one or the new one") {
  for (const Case& c : kCases) {
    for (size_t o = 0; o < static_cast<size_t>(IoOp::kCount); ++o) {
      const auto op = static_cast<IoOp>(o);
      for (uint64_t k = 0;; ++k) {
        INFO(c.name << ", operation " << o << ", call " << k);
        FakeIo io;
        c.set_up(io);
        const uint64_t calls_before = io.calls(op);
        io.fail_at(op, calls_before + k, problem_of(op));
        const std::string id = error_id([&] { c.run(io); });
        if (io.calls(op) <= calls_before + k) break;  // there are no more calls of this kind

        const World left = world_of(io), seen = without_ours(left);
        CHECK(io.open_handles() == 0);
        CHECK((seen == c.before || seen == c.after));
        if (id.empty()) CHECK(seen == c.after);
        const bool after_commit = op == IoOp::kSyncFolder || op == IoOp::kRemoveFile || op == IoOp::kRemoveFolder || op == IoOp::kList;
        if (!id.empty() && !after_commit) CHECK(left == c.before);
        // What is left after such a failure is removed by the next run.
        CHECK(error_id([&] { c.run(io, Replace::kYes); }).empty());
        CHECK(world_of(io) == c.after);
        CHECK_FALSE(io.exists("dir/.out.dcpctl-partial"));
        CHECK_FALSE(io.exists("dir/.out.dcpctl-old"));
      }
    }
  }
}

TEST_CASE("a crash at any call leaves the output whole or absent, and the next run goes on") {
  for (const Case& c : kCases) {
    bool finished = false;
    for (uint64_t n = 0; !finished; ++n) {
      INFO(c.name << ", stopped after " << n << " calls");
      FakeIo io;
      c.set_up(io);
      uint64_t calls = 0;
      io.before = [&](IoOp, uint64_t) {
        if (calls++ >= n) throw Stopped();
      };
      try {
        c.run(io);
        finished = calls <= n;
      } catch (const Stopped&) {
      }
      io.before = nullptr;
      CHECK(io.open_handles() == 0);
      const World seen = without_ours(world_of(io));
      // Folders have one moment without the output (moved aside); one that is filled in place lacks its last file until all are there.
      if (!c.options.folder) CHECK((seen == c.before || seen == c.after));
      if (seen.contains("dir/out/.metadata")) CHECK(seen == c.after);

      // A folder that was empty is so again for the next run, as far as links tell what is ours.
      const bool is_empty = c.empty_folder && c.can_link && !seen.contains("dir/out/.metadata");
      CHECK(error_line([&] { c.run(io, is_empty ? Replace::kNo : Replace::kYes); }) == "no error");
      CHECK(world_of(io) == c.after);
    }
  }
}

TEST_CASE("a power loss finds files synced before their names, and the last file after the others") {
  FakeIo io;
  kCases[0].set_up(io);
  kCases[0].run(io);
  CHECK(io.log == std::vector<std::string>{"create dir/.out.dcpctl-lock", "lock dir/.out.dcpctl-lock", "create dir/.out.dcpctl-partial",
                                           "allocate dir/.out.dcpctl-partial 3", "write dir/.out.dcpctl-partial @0 +3",
                                           "sync dir/.out.dcpctl-partial", "link dir/.out.dcpctl-partial -> dir/out",
                                           "remove_file dir/.out.dcpctl-partial", "sync_folder dir", "remove_file dir/.out.dcpctl-lock"});
  FakeIo in_place;
  kCases[4].set_up(in_place);
  kCases[4].run(in_place);
  const auto first = std::find(in_place.log.begin(), in_place.log.end(), "link dir/out/.a.distcp.dcpctl-partial -> dir/out/a.distcp");
  CHECK(std::vector<std::string>(first, in_place.log.end()) ==
        std::vector<std::string>{
            "link dir/out/.a.distcp.dcpctl-partial -> dir/out/a.distcp", "link dir/out/.b.distcp.dcpctl-partial -> dir/out/b.distcp",
            "sync_folder dir/out", "link dir/out/..metadata.dcpctl-partial -> dir/out/.metadata",
            "remove_file dir/out/.a.distcp.dcpctl-partial", "remove_file dir/out/.b.distcp.dcpctl-partial",
            "remove_file dir/out/..metadata.dcpctl-partial", "sync_folder dir/out", "remove_file dir/out/.dcpctl-lock"});
  CHECK(in_place.calls(IoOp::kSync) == 3);
}

TEST_CASE("without sync nothing is synced") {
  FakeIo io;
  Case c = kCases[2];
  c.options.sync = false;
  c.set_up(io);
  c.run(io);
  CHECK(world_of(io) == c.after);
  CHECK(io.calls(IoOp::kSync) + io.calls(IoOp::kSyncFolder) == 0);
}

TEST_CASE("what lies under the output's name is refused before anything is created") {
  FakeIo io;
  io.put("dir/file", "x");
  io.put("dir/folder/x", "x");
  const auto refusal = [&](const std::string& out, bool folder, Replace replace) {
    const std::string line = error_line([&] { FileSet(io, out, {}, {.folder = folder, .replace = replace}); });
    CHECK(line == error_line([&] { check_output_free(io, out, folder, replace); }));
    return line;
  };
  CHECK(refusal("dir/file", false, Replace::kNo) == "dir/file: the output exists: a file");
  CHECK(refusal("dir/file", true, Replace::kYes) == "dir/file: the output exists: a file");
  CHECK(refusal("dir/folder", false, Replace::kYes) == "dir/folder: the output exists: a folder");
  CHECK(refusal("dir/folder/", true, Replace::kNo) == "dir/folder: the output exists: a folder that is not empty");
  CHECK(error_line([&] { FileSet(io, "none/out", {}, {}); }) == "none/out: cannot be created: no folder 'none'");
  CHECK(error_line([&] { FileSet(io, "dir/file/out", {}, {}); }) == "dir/file/out: cannot be created: no folder but a file at 'dir/file'");
  CHECK(io.calls(IoOp::kCreate) == 0);

  const auto hint = [&](bool folder, Replace replace) -> std::string {
    try {
      check_output_free(io, "dir/file", folder, replace);
    } catch (const Error& error) {
      return error.problem().hint;
    }
    return {};
  };
  CHECK(hint(false, Replace::kNo).empty());                // the command line knows of --force
  CHECK(hint(true, Replace::kNo) == "give another name");  // --force would not help
  CHECK(hint(false, Replace::kYes).empty());
}

TEST_CASE("a folder that another run is just replacing has no name for a moment") {
  FakeIo io;
  io.put("dir/folder/.metadata", "x");
  struct Replaced final : IoWrapper {
    using IoWrapper::IoWrapper, IoWrapper::list;
    std::vector<DirEntry> list(const std::string& folder) override {
      if (absences-- > 0) fail(ProblemId::io_list, {.path = folder}, "No such file or directory");
      return IoWrapper::list(folder);
    }
    int absences = 2;
  } replaced(io);
  check_output_free(replaced, "dir/folder", true, Replace::kYes);
  CHECK(replaced.absences < 0);
  replaced.absences = 9;
  CHECK(error_id([&] { check_output_free(replaced, "dir/folder", true, Replace::kYes); }) == "io_list");
}

TEST_CASE("an output that appears meanwhile is not replaced") {
  for (const Case& c : {kCases[0], kCases[2], kCases[5]}) {
    INFO(c.name);
    FakeIo io;
    c.set_up(io);
    io.before = [&](IoOp op, uint64_t k) {
      if (op == (c.options.folder || !c.can_link ? IoOp::kRename : IoOp::kLink) && k == 0) io.put("dir/out", "of another program");
    };
    CHECK(error_line([&] { c.run(io); }) == "dir/out: the output exists");
    CHECK(world_of(io) == World{{"dir/other", "x"}, {"dir/out", "of another program"}});
  }
}

TEST_CASE("of two live writers one is refused and harms nothing") {
  for (const Case& c : kCases) {
    INFO(c.name);
    FakeIo io;
    c.set_up(io);
    FileSet first(io, "dir/out", c.options.folder ? kThree : std::vector<FileSpec>{{"", 3}}, c.options);
    CHECK(error_line([&] { c.run(io); }) == "dir/out: another dcpctl is writing this output");
    fill(first, c.options.folder);
    first.finish();
    first.commit();
    CHECK(world_of(io) == c.after);
    CHECK(first.found().empty());
  }
}

TEST_CASE("a file and a folder of one name are one output to the lock") {
  FakeIo io;
  io.put("dir/other", "x");
  const FileSet file(io, "dir/out", {{"", 3}}, {});
  CHECK(error_id([&] { FileSet(io, "dir/out", kThree, {.folder = true}); }) == "output_busy");
}

TEST_CASE("a lock whose file has lost its name is no lock") {
  FakeIo io;
  io.put("dir/other", "x");
  bool hooked = false;
  io.before = [&](IoOp op, uint64_t) {
    if (op != IoOp::kLock || std::exchange(hooked, true)) return;
    io.take("dir/.out.dcpctl-lock");  // as the run before does when it ends
  };
  const FileSet set(io, "dir/out", {{"", 3}}, {});
  CHECK(io.calls(IoOp::kLock) == 2);
  CHECK(error_id([&] { FileSet(io, "dir/out", {{"", 3}}, {}); }) == "output_busy");
}

TEST_CASE("where a file system gives new ids, owner and kind tell what is ours") {
  for (const Case& c : kCases) {
    INFO(c.name);
    FakeIo io;
    c.set_up(io);
    io.can_link = false;
    io.capabilities.keeps_ids = false;
    c.run(io);
    CHECK(world_of(io) == c.after);
  }
}

TEST_CASE("what cannot be put in place puts the old folder back") {
  FakeIo io;
  kCases[3].set_up(io);
  io.fail_at(IoOp::kRename, 1, ProblemId::io_rename);
  CHECK(error_line([&] { kCases[3].run(io); }) == "dir/.out.dcpctl-partial: cannot be renamed: scripted fault");
  CHECK(world_of(io) == kCases[3].before);
}

TEST_CASE("space is looked at first, and may run out all the same") {
  FakeIo io;
  io.put("dir/other", "x");
  io.capacity_bytes = 8;
  CHECK(error_line([&] { FileSet(io, "dir/out", kThree, {.folder = true}); }) == "dir/out: not enough space: needs 8 B, 7 B free");
  CHECK(world_of(io) == kBeside);

  io.capacity_bytes = 9;
  io.before = [&](IoOp op, uint64_t k) {
    if (op == IoOp::kAllocate && k == 2) io.capacity_bytes = 6;  // others write as well
  };
  CHECK(error_line([&] { FileSet(io, "dir/out", kThree, {.folder = true}); }) ==
        "dir/.out.dcpctl-partial/.metadata: not enough space: No space left on device");
  CHECK(world_of(io) == kBeside);
}

TEST_CASE("a file system that reserves no space is named once") {
  FakeIo io;
  io.put("dir/other", "x");
  io.capabilities.reserves = false;
  const FileSet set(io, "dir/out", kThree, {.folder = true});
  CHECK(set.notes() == std::vector<std::string>{"'dir/out': the file system reserves no space, so it may run out later"});
}

TEST_CASE("where an output cannot be made as it is made here, nothing is begun") {
  const auto line = [](const WriteCapabilities& can, const Case& c) {
    FakeIo io;
    c.set_up(io);
    io.capabilities = can;
    const std::string said = error_line([&] { c.run(io); });
    CHECK(world_of(io) == (said == "no error" ? c.after : c.before));
    return said;
  };
  for (const Case& c : kCases) {
    INFO(c.name);
    CHECK(line({.writes_anywhere = false}, c) ==
          "dir/out: the output cannot be written there: files there can only be written from front to back");
    const bool replaces = !c.options.folder && c.options.replace == Replace::kYes;
    CHECK(line({.replaces_atomically = false}, c) ==
          (replaces ? "dir/out: the output cannot be written there: a file there cannot be replaced in one step" : "no error"));
  }
}

TEST_CASE("short writes are continued, and writes past the end refused") {
  FakeIo io;
  kCases[2].set_up(io);
  io.max_write = 1;
  kCases[2].run(io);
  CHECK(world_of(io) == kCases[2].after);

  FileSet set(io, "dir/two", {{"", 3}}, {});
  CHECK(error_line([&] { set.write(0, 2, as_bytes("ab")); }) ==
        "dir/.two.dcpctl-partial @ 0x2: internal error (got a write past the planned end, expected 3 bytes in all)");
}

TEST_CASE("abort, twice, leaves what was there") {
  for (const Case& c : kCases) {
    INFO(c.name);
    FakeIo io;
    c.set_up(io);
    FileSet set(io, "dir/out", c.options.folder ? kThree : std::vector<FileSpec>{{"", 3}}, c.options);
    fill(set, c.options.folder);
    set.abort();
    set.abort();
    CHECK(world_of(io) == c.before);
    CHECK(io.open_handles() == 0);
    CHECK(io.exists("dir/out") == (c.empty_folder || c.options.replace == Replace::kYes));
  }
}

TEST_CASE("past the cache goes what will be synced, if each file stays open until then") {
  const auto paths = [](bool sync, size_t open_files) {
    FakeIo io;
    io.put_folder("dir");
    FileSet set(io, "dir/out", kThree, {.folder = true, .sync = sync, .open_files = open_files});
    fill(set, true);
    return io.past_cache.size();
  };
  CHECK(paths(true, 3) == 2);  // one of the three is empty
  CHECK(paths(true, 2) == 0);
  CHECK(paths(false, 3) == 0);
}
