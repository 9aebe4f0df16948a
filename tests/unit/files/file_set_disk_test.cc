// The sink on a file system of the machine's.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "base/error_line.h"
#include "base/temp_dir.h"
#include "base/workers.h"
#include "exec/written.h"

using namespace dcp;
using namespace dcp::test;

TEST_CASE("on a disk: many threads write a new folder") {
  const TempDir dir;
  const auto io = make_posix_io();
  constexpr uint64_t kParts = 64, kPartBytes = 1000;
  FileSet set(*io, dir / "out/", {{"a.distcp", kParts * kPartBytes}, {".metadata", 1}}, {.folder = true});
  StopFlag stop{0};
  parallel_for(4, kParts, stop, [&](unsigned, uint64_t part) {
    set.write(0, part * kPartBytes, as_bytes(std::string(kPartBytes, static_cast<char>('0' + part))));
  });
  write_text(set, 1, "m");
  set.finish();
  CHECK_FALSE(std::filesystem::exists(dir / "out"));
  set.commit();
  std::string expected;
  for (uint64_t part = 0; part < kParts; ++part) expected.append(kPartBytes, static_cast<char>('0' + part));
  CHECK(dir.text_of("out/a.distcp") == expected);
  CHECK(dir.text_of("out/.metadata") == "m");
  CHECK(io->list(dir.path()).size() == 1);
}

TEST_CASE("on a disk: a folder is its owner's alone until it has the output's name") {
  namespace fs = std::filesystem;
  const TempDir dir;
  const auto io = make_posix_io();
  const auto permissions = [&](const std::string& name) { return static_cast<unsigned>(fs::status(dir / name).permissions()); };
  const ::mode_t before = ::umask(0022);
  for (const unsigned parent : {0755u, 02775u}) {  // files of the second one's folders get its group
    fs::permissions(dir.path(), fs::perms(parent));
    FileSet set(*io, dir / "out", kThree, {.folder = true, .replace = Replace::kYes});
    CHECK(permissions(".out.dcpctl-partial") == ((parent & 02000u) | 0700u));
    fill(set, true);
    set.finish();
    set.commit();
    CHECK(permissions("out") == ((parent & 02000u) | 0755u));
  }
  ::umask(before);
}

TEST_CASE("on a disk: an empty folder is filled, a full one replaced, links are not followed") {
  namespace fs = std::filesystem;
  const TempDir dir;
  const auto io = make_posix_io();
  const auto run = [&](Replace replace) {
    FileSet set(*io, dir / "out", kThree, {.folder = true, .replace = replace});
    CHECK(error_id([&] { FileSet(*io, dir / "out", kThree, {.folder = true, .replace = replace}); }) == "output_busy");
    fill(set, true);
    set.finish();
    set.commit();
  };
  fs::create_directory(dir / "out");
  run(Replace::kNo);
  CHECK(dir.text_of("out/a.distcp") == "abcde");
  CHECK(io->list(dir / "out").size() == 3);
  CHECK(error_id([&] { run(Replace::kNo); }) == "output_exists");

  dir.put("elsewhere/kept", "kept");
  fs::create_symlink(dir / "elsewhere/kept", dir / "out/link.safetensors");
  dir.put("out/old.distcp", "older");
  run(Replace::kYes);
  CHECK(io->list(dir / "out").size() == 3);
  CHECK(dir.text_of("elsewhere/kept") == "kept");

  // What is no part of an output is never replaced with it.
  dir.put("out/sub/thesis.tex", "years");
  CHECK(error_line([&] { run(Replace::kYes); }).find("holds 'sub', which is not part of a checkpoint") != std::string::npos);
  fs::remove_all(dir / "out/sub");
  dir.put("out/notes.txt", "mine");
  CHECK(error_id([&] { run(Replace::kYes); }) == "output_exists");
  CHECK(dir.text_of("out/notes.txt") == "mine");
}

TEST_CASE("on a disk: of a link the link is replaced, never what it points to") {
  namespace fs = std::filesystem;
  for (const bool folder : {true, false})
    for (const std::string target : {"full", "empty", "file", "nowhere"}) {
      CAPTURE(folder, target);
      const TempDir dir;
      const auto io = make_posix_io();
      dir.put("full/kept", "kept");
      dir.put("file", "kept");
      fs::create_directory(dir / "empty");
      fs::create_symlink(target, dir / "out");
      const auto run = [&](Replace replace) {
        FileSet set(*io, dir / "out", folder ? kThree : std::vector<FileSpec>{{"", 3}}, {.folder = folder, .replace = replace});
        fill(set, folder);
        set.finish();
        set.commit();
        return set.found();
      };
      const bool fills = folder && target == "empty";  // nothing is replaced there
      if (!fills) {
        CHECK(error_line([&] { run(Replace::kNo); }).ends_with("out: the output exists (got a link)"));
        CHECK(fs::is_symlink(dir / "out"));
      }
      run(Replace::kYes);
      CHECK_FALSE(fs::is_symlink(dir / "out"));
      CHECK(fs::is_directory(dir / "out") == folder);
      CHECK(dir.text_of("full/kept") + dir.text_of("file") == "keptkept");
      CHECK(fs::is_empty(dir / "empty"));
      CHECK_FALSE(fs::exists(dir / "nowhere"));
      CHECK(io->list(dir.path()).size() == 4);
    }
}

TEST_CASE("on a disk: what another user has put there stays") {
  if (::geteuid() != 0) SKIP("only root may give files away");
  const TempDir dir;
  const auto io = make_posix_io();
  const auto refusal = [&] { return error_line([&] { FileSet(*io, dir / "out", kThree, {.folder = true}); }); };
  const std::string says = ": has the name of a working file of the output, and was not left by an interrupted dcpctl of this user ";
  dir.put(".out.dcpctl-partial/a.distcp", "theirs");
  REQUIRE(::chown((dir / ".out.dcpctl-partial/a.distcp").c_str(), 65534, 65534) == 0);
  CHECK(refusal() == dir / ".out.dcpctl-partial/a.distcp" + says + "(got a file of user 65534, expected a file of user 0)");
  REQUIRE(::chown((dir / ".out.dcpctl-partial").c_str(), 65534, 65534) == 0);
  CHECK(refusal() == dir / ".out.dcpctl-partial" + says + "(got a folder of user 65534, expected a folder of user 0)");
  CHECK(dir.text_of(".out.dcpctl-partial/a.distcp") == "theirs");
  std::filesystem::remove_all(dir / ".out.dcpctl-partial");
  std::filesystem::create_directory_symlink("elsewhere", dir / ".out.dcpctl-partial");
  CHECK(refusal() == dir / ".out.dcpctl-partial" + says + "(got a link of user 0, expected a file of user 0)");
  CHECK(std::filesystem::is_symlink(dir / ".out.dcpctl-partial"));
}

TEST_CASE("on a disk: a file, its leftover and its replacement") {
  const TempDir dir;
  const auto io = make_posix_io();
  dir.put(".out.dcpctl-partial", "half of something larger");
  const auto write = [&](std::string_view text, Replace replace) {
    FileSet set(*io, dir / "out", {{"", text.size()}}, {.replace = replace});
    write_text(set, 0, text);
    set.finish();
    set.commit();
    return set.found().size();
  };
  CHECK(write("new", Replace::kNo) == 1);
  CHECK(dir.text_of("out") == "new");
  CHECK(error_id([&] { write("newer", Replace::kNo); }) == "output_exists");
  CHECK(write("newer", Replace::kYes) == 0);
  CHECK(dir.text_of("out") == "newer");
  CHECK(io->list(dir.path()).size() == 1);
}
