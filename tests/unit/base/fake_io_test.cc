#include "base/fake_io.h"

#include <catch2/catch_test_macros.hpp>

#include "base/by_path.h"
#include "base/error_line.h"

namespace dcp::test {
namespace {

TEST_CASE("the log holds the calls in order") {
  FakeIo io;
  make_folder(io, "out");
  {
    const OpenFile file(io, create_file(io, "out/f"));
    io.allocate(file.get(), 5);
    write_all(io, file.get(), 0, as_bytes("hello"));
    io.sync(file.get());
  }
  rename(io, "out", "done", Replace::kNo);
  io.sync_folder(OpenFile(io, io.open_folder("")).get());
  CHECK(io.log == std::vector<std::string>{"make_folder out", "create out/f", "allocate out/f 5", "write out/f @0 +5", "sync out/f",
                                           "rename out -> done", "sync_folder "});
  CHECK(io.paths() == std::vector<std::string>{"done/f"});
  CHECK(io.text_of("done/f") == "hello");
  CHECK(io.open_handles() == 0);
}

TEST_CASE("the k-th call of a kind fails, and only that one") {
  FakeIo io;
  io.put("f", "abc");
  io.fail_at(Op::kRead, 1, ProblemId::io_read);
  const OpenFile file(io, io.open_read("f"));
  std::byte buffer[3];
  read_exact(io, file.get(), 0, buffer);
  CHECK(error_line([&] { read_exact(io, file.get(), 0, buffer); }) == "f: cannot be read: scripted fault");
  read_exact(io, file.get(), 0, buffer);
  CHECK(io.calls(Op::kRead) == 3);
}

TEST_CASE("short reads and writes are looped over") {
  FakeIo io;
  io.max_read = 2;
  io.max_write = 3;
  const OpenFile file(io, create_file(io, "f"));
  write_all(io, file.get(), 1, as_bytes("abcdefg"));
  CHECK(io.text_of("f") == std::string("\0abcdefg", 8));
  CHECK(io.calls(Op::kWrite) == 3);
  CHECK(as_text(read_file(io, "f", 100)) == std::string_view("\0abcdefg", 8));
  CHECK(io.calls(Op::kRead) == 4);
}

TEST_CASE("a write that takes nothing is an error, not a loop") {
  FakeIo io;
  io.max_write = 0;
  const OpenFile file(io, create_file(io, "f"));
  CHECK(error_line([&] { write_all(io, file.get(), 4, as_bytes("abc")); }) ==
        "f @ 0x4: cannot be written (got 0 bytes written, expected 3 bytes)");
}

TEST_CASE("space runs out") {
  FakeIo io;
  io.put("in", "12345");
  io.capacity_bytes = 10;
  const OpenFile file(io, create_file(io, "out"));
  CHECK(io.free_bytes("") == 5);
  CHECK(error_id([&] { io.allocate(file.get(), 6); }) == "io_no_space");
  io.allocate(file.get(), 4);
  write_all(io, file.get(), 0, as_bytes("abcde"));
  CHECK(error_id([&] { write_all(io, file.get(), 5, as_bytes("f")); }) == "io_no_space");
  io.take("in");
  write_all(io, file.get(), 5, as_bytes("f"));
}

TEST_CASE("a hook sees each call before it happens") {
  FakeIo io;
  std::vector<std::string> seen;
  io.before = [&](Op op, uint64_t k) {
    if (op == Op::kRename) seen.push_back(std::to_string(k) + (io.exists("b") ? " b is there" : " no b yet"));
  };
  io.put("a", "");
  rename(io, "a", "b", Replace::kNo);
  rename(io, "b", "a", Replace::kNo);
  CHECK(seen == std::vector<std::string>{"0 no b yet", "1 b is there"});
}

TEST_CASE("a lock held elsewhere, a handle used after its end") {
  FakeIo io;
  io.put("lock", "");
  io.lock_elsewhere("lock");
  const Handle file = open_to_write(io, "lock").value();
  CHECK_FALSE(io.try_lock(file));
  io.close(file);
  CHECK(error_id([&] { io.sync(file); }) == "internal");
}

}  // namespace
}  // namespace dcp::test
