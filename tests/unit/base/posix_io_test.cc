// What only the real file system shows: links, devices, and the calls that some kernels and file systems lack.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/by_path.h"
#include "base/error_line.h"
#include "base/io.h"
#include "base/posix_calls.h"
#include "base/temp_dir.h"
#include "base/workers.h"

namespace dcp {
namespace {

namespace fs = std::filesystem;
using test::create_file;
using test::error_id;
using test::error_line;
using test::TempDir;

void make_socket(const std::string& path) {
  const posix::Fd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
  struct sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  REQUIRE(::bind(fd.get(), reinterpret_cast<const struct sockaddr*>(&address), sizeof address) == 0);
}

// The text of what was opened beneath; "absent", or the id of the problem.
std::string beneath(Io& io, const std::string& root, std::string_view name, FollowLinks links = FollowLinks::kCacheOnly) {
  std::string text;
  const std::string id = error_id([&] {
    const std::optional<Handle> handle = io.open_beneath(root, name, links);
    if (!handle) {
      text = "absent";
      return;
    }
    const OpenFile file(io, *handle);
    text.resize(io.facts(file.get()).bytes);
    read_exact(io, file.get(), 0, {reinterpret_cast<std::byte*>(text.data()), text.size()});
  });
  return id.empty() ? text : id;
}

std::string random_text(size_t bytes) {
  std::string text(bytes, '\0');
  std::mt19937 next(7);
  for (char& c : text) c = static_cast<char>(next());
  return text;
}

// Neighbours that share pages, of all sizes, from two threads: the pages that one write sends off are needed by the next.
TEST_CASE("what is written past the cache is what is read") {
  const TempDir temp;
  const auto io = make_posix_io();
  const std::string text = random_text(24 << 20);
  const OpenFile file(*io, create_file(*io, temp / "out"));
  io->allocate(file.get(), text.size());
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  for (uint64_t at = 0, n = 0; at < text.size(); ++n) {
    const uint64_t bytes = std::min<uint64_t>(n % 3 == 2 ? 5 : (1 << 20) - 3208, text.size() - at);
    parts.emplace_back(at, bytes);
    at += bytes;
  }
  const StopFlag stop{0};
  parallel_for(2, parts.size(), stop, [&](unsigned, uint64_t n) {
    const auto [at, bytes] = parts[n];
    write_all(*io, file.get(), at, as_bytes(text).subspan(at, bytes), Cache::kPass);
  });
  io->sync(file.get());
  io->drop_cache(file.get());
  CHECK(temp.text_of("out") == text);
}

TEST_CASE("a file system that has no cache to pass is written to all the same") {
  const posix::Fd memory(::memfd_create("memory", MFD_CLOEXEC));
  const std::string text = random_text(1 << 20);
  CHECK(posix::pwrite_past_cache(memory.get(), text.data(), text.size(), 0) == -1);
  CHECK(errno == EOPNOTSUPP);
  const auto io = make_posix_io();
  CHECK(io->write_past_cache(memory.get(), 0, as_bytes(text)) == text.size());
  std::string back(text.size(), '\0');
  read_exact(*io, memory.get(), 0, {reinterpret_cast<std::byte*>(back.data()), back.size()});
  CHECK(back == text);
}

TEST_CASE("only regular files are opened for reading, without waiting for a FIFO's writer") {
  const TempDir temp;
  const auto io = make_posix_io();
  REQUIRE(::mkfifo((temp / "fifo").c_str(), 0600) == 0);
  make_socket(temp / "socket");
  CHECK(error_line([&] { io->open_read(temp / "fifo"); }) == temp / "fifo: is not a regular file (got a FIFO)");
  CHECK(error_line([&] { io->open_read(temp / "socket"); }) == temp / "socket: is not a regular file (got a socket)");
  CHECK(error_line([&] { io->open_read(temp.path()); }) == temp.path() + ": is not a regular file (got a folder)");
  CHECK(error_line([&] { io->open_read("/dev/null"); }) == "/dev/null: is not a regular file (got a device)");
  CHECK(error_line([&] { io->open_read(temp / "none"); }) == temp / "none: cannot be opened (got no such file or directory)");
  CHECK(beneath(*io, temp.path(), "fifo") == "not_regular");
  CHECK(beneath(*io, temp.path(), "socket") == "not_regular");
  CHECK(error_line([&] { test::open_to_write(*io, temp / "fifo"); }) ==
        temp / "fifo: cannot be created (got a FIFO, expected a regular file)");
}

TEST_CASE("a link that the user names is followed for reading, never for writing") {
  const TempDir temp;
  const auto io = make_posix_io();
  fs::create_symlink(temp.put("real", "x"), temp / "link");
  CHECK(as_text(read_file(*io, temp / "link", 10)) == "x");
  CHECK(error_id([&] { test::open_to_write(*io, temp / "link"); }) == "io_create");
}

TEST_CASE("names that could lead out of the folder are refused before anything is opened") {
  const TempDir temp;
  const auto io = make_posix_io();
  temp.put("in/f", "x");
  temp.put("out", "secret");
  const std::string root = temp / "in";
  for (const std::string name : {"../out", "sub/../../out", "..", "/etc/passwd", "", ".", "./", "//f"}) {
    INFO(name);
    CHECK(beneath(*io, root, name) == "path_escapes");
    CHECK(beneath(*io, root, name, FollowLinks::kAll) == "path_escapes");
  }
  CHECK(beneath(*io, root, std::string_view("f\0/../out", 9)) == "path_escapes");
  CHECK(error_line([&] { io->open_beneath(root, std::string(5000, 'n'), FollowLinks::kAll); }) ==
        root + ": a file name in the checkpoint leads outside its folder (got a name of 5000 bytes, expected at most 4096 bytes)");
  CHECK(error_line([&] { io->open_beneath(root, "../\x1b", FollowLinks::kAll); }) ==
        root + ": a file name in the checkpoint leads outside its folder (got '../\\x1b')");
  CHECK(beneath(*io, root, ".//f") == "x");
  CHECK(beneath(*io, root, "..f") == "absent");
  CHECK(beneath(*io, temp / "none", "f") == "absent");
}

TEST_CASE("links inside a checkpoint are refused unless asked for") {
  const TempDir temp;
  const auto io = make_posix_io();
  temp.put("out/f", "secret");
  temp.put("in/sub/f", "x");
  fs::create_symlink("sub/f", temp / "in/inner");
  fs::create_symlink("../out/f", temp / "in/outer");
  fs::create_symlink("../out", temp / "in/folder");
  fs::create_symlink("nowhere", temp / "in/dangling");
  const std::string root = temp / "in";
  for (const char* name : {"inner", "outer", "folder/f", "dangling"}) {
    INFO(name);
    CHECK(beneath(*io, root, name) == "link_refused");
  }
  CHECK(error_line([&] { io->open_beneath(root, "outer", FollowLinks::kCacheOnly); }) == root + "/outer: is a symbolic link");
  CHECK(beneath(*io, root, "inner", FollowLinks::kAll) == "x");
  CHECK(beneath(*io, root, "folder/f", FollowLinks::kAll) == "secret");
  CHECK(beneath(*io, root, "dangling", FollowLinks::kAll) == "absent");
}

TEST_CASE("links of the Hugging Face cache are followed, and nothing that only looks like one") {
  const TempDir temp;
  const auto io = make_posix_io();
  temp.put("blobs/abc", "weights");
  temp.put("blobs/deep/abc", "deep");
  temp.put("elsewhere", "secret");
  fs::create_directories(temp / "snapshots/rev/sub");
  fs::create_directories(temp / "evil/snap");
  fs::create_symlink(temp / "elsewhere", temp / "blobs/link");
  fs::create_directory_symlink(temp / "blobs", temp / "evil/blobs");
  const std::string root = temp / "snapshots/rev";
  const auto linked = [&](const std::string& name, const std::string& target) {
    fs::remove(root + "/" + name);
    fs::create_symlink(target, root + "/" + name);
    return beneath(*io, root, name);
  };
  CHECK(linked("f", "../../blobs/abc") == "weights");
  CHECK(linked("sub/f", "../../../blobs/abc") == "weights");
  CHECK(linked("f", "../../blobs/none") == "absent");
  CHECK(linked("f", "../../blobs/link") == "link_refused");  // a blob is never a link itself
  CHECK(linked("f", "../../blobs/deep/abc") == "link_refused");
  CHECK(linked("f", "../../blobs/deep") == "not_regular");
  CHECK(linked("f", "../../blobs/..") == "link_refused");
  CHECK(linked("f", "../../blobs/") == "link_refused");
  CHECK(linked("f", "../../elsewhere") == "link_refused");
  CHECK(linked("f", "blobs/abc") == "link_refused");
  CHECK(linked("f", temp / "blobs/abc") == "link_refused");
  fs::create_symlink("../blobs/abc", temp / "evil/snap/f");
  CHECK(beneath(*io, temp / "evil/snap", "f") == "link_refused");  // its `blobs` is a link
}

// Beneath by hand: the text, or the name of errno's value.
std::string opened(int (*open)(int, const std::string&), const std::string& root, const std::string& name) {
  const posix::Fd folder(::open(root.c_str(), O_PATH | O_DIRECTORY));
  const posix::Fd fd(open(folder.get(), name));
  if (!fd) return ::strerrorname_np(errno);
  char text[16];
  const ssize_t n = ::read(fd.get(), text, sizeof text);
  return n < 0 ? ::strerrorname_np(errno) : std::string(text, static_cast<size_t>(n));
}

TEST_CASE("the walk opens what openat2 opens") {
  const auto open = GENERATE(&posix::open_beneath_by_kernel, &posix::open_beneath_by_walk);
  const TempDir temp;
  temp.put("a/b/c", "deep");
  temp.put("top", "flat");
  fs::create_directory_symlink("a", temp / "link");
  if (opened(open, temp.path(), "top") == "ENOSYS") SKIP("this kernel has no openat2");
  CHECK(opened(open, temp.path(), "top") == "flat");
  CHECK(opened(open, temp.path(), "a/b/c") == "deep");
  CHECK(opened(open, temp.path(), "a/x/c") == "ENOENT");
  CHECK(opened(open, temp.path(), "top/c") == "ENOTDIR");
  CHECK(opened(open, temp.path(), "link/b/c") == "ELOOP");
  CHECK(opened(open, temp.path(), "link") == "ELOOP");
}

TEST_CASE("renaming without replacing, with and without the kernel's help") {
  const auto rename = GENERATE(&posix::rename_new_by_kernel, &posix::rename_new_by_link);
  const TempDir temp;
  const posix::Fd folder(::open(temp.path().c_str(), O_PATH | O_CLOEXEC));
  temp.put("f", "new");
  temp.put("taken", "old");
  temp.put("d/inside", "x");
  CHECK(rename(folder.get(), "f", "taken") == -1);
  CHECK(errno == EEXIST);
  CHECK(temp.text_of("taken") == "old");
  CHECK(temp.text_of("f") == "new");
  REQUIRE(rename(folder.get(), "f", "free") == 0);
  CHECK(temp.text_of("free") == "new");
  CHECK_FALSE(fs::exists(temp / "f"));

  fs::create_directory(temp / "empty");
  CHECK(rename(folder.get(), "d", "empty") == -1);  // rename(2) alone would replace an empty folder
  CHECK(errno == EEXIST);
  REQUIRE(rename(folder.get(), "d", "e") == 0);
  CHECK(temp.text_of("e/inside") == "x");
  CHECK(rename(folder.get(), "none", "n") == -1);
  CHECK(errno == ENOENT);
}

TEST_CASE("a list says what links point to") {
  const TempDir temp;
  const auto io = make_posix_io();
  temp.put("d/f", "");
  fs::create_symlink("d/f", temp / "l1");
  fs::create_directory_symlink("d", temp / "l2");
  fs::create_symlink("none", temp / "l3");
  const std::vector<DirEntry> entries = io->list(temp.path());
  REQUIRE(entries.size() == 4);
  CHECK(entries[1].kind == FileKind::kRegular);
  CHECK(entries[2].kind == FileKind::kDirectory);
  CHECK(entries[3].kind == FileKind::kOther);
}

TEST_CASE("allocated space is there, and free space is known") {
  const TempDir temp;
  const auto io = make_posix_io();
  const OpenFile file(*io, create_file(*io, temp / "f"));
  io->allocate(file.get(), 1 << 20);
  struct stat status{};
  REQUIRE(::stat((temp / "f").c_str(), &status) == 0);
  CHECK(status.st_size == 1 << 20);
  const OpenFile folder(*io, io->open_folder(temp.path()));
  if (io->write_capabilities(folder.get()).reserves) CHECK(status.st_blocks * 512 >= 1 << 20);
  CHECK(io->free_bytes(temp.path()).value() > 0);
  CHECK_FALSE(io->free_bytes(temp / "none"));
}

TEST_CASE("where a user may make nothing is known before something is made") {
  const TempDir temp;
  const auto io = make_posix_io();
  fs::create_directory(temp / "closed");
  fs::permissions(temp / "closed", fs::perms::owner_read);
  CHECK(error_line([&] { io->check_writable(temp.path()); }) == "no error");
  CHECK(error_line([&] { io->check_writable(temp / "none"); }) == temp / "none: cannot be created (got no such file or directory)");
  if (::geteuid() != 0)
    CHECK(error_line([&] { io->check_writable(temp / "closed"); }) == temp / "closed: cannot be created (got permission denied)");
}

TEST_CASE("failures carry the path, the offset and the system's text") {
  const TempDir temp;
  const auto io = make_posix_io();
  const OpenFile file(*io, io->open_read(temp.put("f", "x")));
  CHECK(error_line([&] { io->write(file.get(), 16, as_bytes("y")); }) == temp / "f @ 0x10: cannot be written (got bad file descriptor)");
  CHECK(error_line([&] { test::rename(*io, temp / "none", temp / "g", Replace::kNo); }) ==
        temp / "none: cannot be renamed (got no such file or directory)");
  CHECK(error_line([&] { test::remove_folder(*io, temp.path()); }) == temp.path() + ": cannot be deleted (got directory not empty)");
  CHECK(error_line([&] { io->list(temp / "none"); }) == temp / "none: cannot be listed (got no such file or directory)");
}

}  // namespace
}  // namespace dcp
