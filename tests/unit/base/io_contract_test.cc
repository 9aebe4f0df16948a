// What both Ios promise: the same calls, the same results and the same problems.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "base/by_path.h"
#include "base/error_line.h"
#include "base/fake_io.h"
#include "base/io.h"
#include "base/temp_dir.h"

namespace dcp {
namespace {

using test::create_file;
using test::error_id;
using test::remove_file;
using test::remove_folder;
using test::rename;

struct World {
  test::TempDir temp;
  std::unique_ptr<Io> io;
  std::string root;
};

std::unique_ptr<World> make_world(bool real) {
  auto world = std::make_unique<World>();
  world->root = world->temp / "root";
  if (real) {
    world->io = make_posix_io();
    make_folder(*world->io, world->root);
  } else {
    auto fake = std::make_unique<test::FakeIo>();
    fake->put_folder(world->root);
    world->io = std::move(fake);
  }
  return world;
}

void write_text(Io& io, const std::string& path, std::string_view text) {
  const OpenFile file(io, create_file(io, path));
  write_all(io, file.get(), 0, as_bytes(text));
}

std::string text_of(Io& io, const std::string& path) { return std::string(as_text(read_file(io, path, 1000))); }

TEST_CASE("files are made, read, renamed and removed") {
  const auto world = make_world(GENERATE(true, false));
  Io& io = *world->io;
  const std::string a = world->root + "/a";
  const std::string b = world->root + "/b";
  write_text(io, a, "hello");
  CHECK(error_id([&] { create_file(io, a); }) == "output_exists");
  CHECK(text_of(io, a) == "hello");
  CHECK(io.facts(a)->bytes == 5);
  CHECK(io.facts(a)->kind == FileKind::kRegular);
  CHECK(error_id([&] { read_file(io, a, 4); }) == "over_limit");

  write_text(io, b, "old");
  CHECK(error_id([&] { rename(io, a, b, Replace::kNo); }) == "output_exists");
  CHECK(text_of(io, b) == "old");
  rename(io, a, b, Replace::kYes);
  CHECK(text_of(io, b) == "hello");
  CHECK_FALSE(io.facts(a));
  rename(io, b, a, Replace::kNo);
  CHECK(text_of(io, a) == "hello");

  remove_file(io, a);
  remove_file(io, a);
  CHECK(error_id([&] { io.open_read(a); }) == "io_open");
  CHECK(error_id([&] { rename(io, a, b, Replace::kYes); }) == "io_rename");
}

TEST_CASE("an opened file is kept when reused, and takes its size from allocate") {
  const auto world = make_world(GENERATE(true, false));
  Io& io = *world->io;
  const std::string path = world->root + "/f";
  write_text(io, path, "0123456789");
  const OpenFile file(io, test::open_to_write(io, path).value());
  CHECK_FALSE(test::open_to_write(io, world->root + "/none"));
  CHECK(io.name_of(file.get()) == path);
  CHECK(io.facts(file.get()).bytes == 10);
  io.allocate(file.get(), 4);
  CHECK(text_of(io, path) == "0123");
  io.allocate(file.get(), 6);
  CHECK(text_of(io, path) == std::string("0123\0\0", 6));
  io.allocate(file.get(), 0);
  CHECK(io.facts(file.get()).bytes == 0);
  io.sync(file.get());
  io.sync_folder(OpenFile(io, io.open_folder(world->root)).get());
}

TEST_CASE("a read past the end names what is missing") {
  const auto world = make_world(GENERATE(true, false));
  Io& io = *world->io;
  const std::string path = world->root + "/f";
  write_text(io, path, "abcdef");
  const OpenFile file(io, io.open_read(path));
  std::byte buffer[8];
  CHECK(io.read(file.get(), 4, buffer) == 2);
  CHECK(io.read(file.get(), 6, buffer) == 0);
  CHECK(test::error_line([&] { read_exact(io, file.get(), 2, buffer); }) ==
        path + " @ 0x2: the file ends before the bytes that belong there (got 4 bytes, expected 8 bytes)");
}

TEST_CASE("folders are made, listed, renamed and removed") {
  const auto world = make_world(GENERATE(true, false));
  Io& io = *world->io;
  const std::string folder = world->root + "/d";
  make_folder(io, folder);
  CHECK(error_id([&] { make_folder(io, folder); }) == "output_exists");
  CHECK(error_id([&] { make_folder(io, world->root + "/none/d"); }) == "io_create");
  CHECK(error_id([&] { create_file(io, world->root + "/none/f"); }) == "io_create");
  CHECK(error_id([&] { io.open_read(folder); }) == "not_regular");
  write_text(io, folder + "/b", "1");
  write_text(io, folder + "/a", "2");
  make_folder(io, folder + "/c");
  const std::vector<DirEntry> entries = io.list(folder);
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].name == "a");
  CHECK(entries[1].kind == FileKind::kRegular);
  CHECK(entries[2].kind == FileKind::kDirectory);
  CHECK(error_id([&] { io.list(world->root + "/none"); }) == "io_list");

  rename(io, folder, world->root + "/e", Replace::kNo);
  CHECK(text_of(io, world->root + "/e/b") == "1");
  CHECK(io.facts(world->root + "/e/c")->kind == FileKind::kDirectory);
  CHECK(error_id([&] { remove_folder(io, world->root + "/e"); }) == "io_remove");
  remove_folder(io, world->root + "/e/c");
  remove_folder(io, world->root + "/e/c");
  CHECK(io.list(world->root + "/e").size() == 2);
}

TEST_CASE("names from a checkpoint are looked for beneath its folder") {
  const auto world = make_world(GENERATE(true, false));
  Io& io = *world->io;
  make_folder(io, world->root + "/sub");
  write_text(io, world->root + "/sub/f", "x");
  const auto open = [&](std::string_view name) { return io.open_beneath(world->root, name, FollowLinks::kCacheOnly); };
  const OpenFile file(io, open("sub/f").value());
  CHECK(io.name_of(file.get()) == world->root + "/sub/f");
  CHECK_FALSE(open("sub/none"));
  CHECK_FALSE(open("sub/f/below"));
  CHECK(error_id([&] { open("sub"); }) == "not_regular");
  CHECK(error_id([&] { open("../root/sub/f"); }) == "path_escapes");
  CHECK(error_id([&] { open("/etc/passwd"); }) == "path_escapes");
  CHECK(error_id([&] { open(""); }) == "path_escapes");
}

TEST_CASE("a lock keeps others out until the file is closed") {
  const auto world = make_world(GENERATE(true, false));
  Io& io = *world->io;
  const std::string path = world->root + "/lock";
  OpenFile first(io, create_file(io, path));
  const OpenFile second(io, test::open_to_write(io, path).value());
  CHECK(io.try_lock(first.get()));
  CHECK(io.try_lock(first.get()));
  CHECK_FALSE(io.try_lock(second.get()));
  {
    const OpenFile closing = std::move(first);
  }
  CHECK(io.try_lock(second.get()));
}

TEST_CASE("the clock does not go back") {
  const auto world = make_world(GENERATE(true, false));
  const uint64_t first = world->io->now_ns();
  CHECK(world->io->now_ns() >= first);
}

}  // namespace
}  // namespace dcp
