#include "base/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error_line.h"
#include "base/temp_dir.h"

namespace dcp {
namespace {

namespace fs = std::filesystem;

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("The limit of memory is the least of the process's group and of those above it") {
  const test::TempDir temp;
  const fs::path mount = temp.path();
  write_text(mount / "memory.max", "9000\n");
  write_text(mount / "a/memory.max", "500\n");
  write_text(mount / "a/b/memory.max", "max\n");
  const std::string mounted = mount.string();
  const auto bytes = [&](const char* groups) {
    const auto limit = memory_limit(groups, mounted);
    return limit ? limit->bytes : 0;
  };
  CHECK(bytes("0::/a/b\n") == 500);
  CHECK(memory_limit("0::/a/b\n", mounted)->file == mounted + "/a/memory.max");
  CHECK(bytes("0::/\n") == 9000);
  CHECK(bytes("0::/of/the/host\n") == 9000);
  CHECK(bytes("3:cpu:/a\n") == 0);
  CHECK(bytes("nothing that is known\n:\n0\n") == 0);
  CHECK(bytes("") == 0);
}

TEST_CASE("The limit of memory in version 1 of control groups") {
  const test::TempDir temp;
  const fs::path mount = temp.path();
  write_text(mount / "memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  write_text(mount / "memory/job/memory.limit_in_bytes", "123456\n");
  const std::string mounted = mount.string();
  CHECK_FALSE(memory_limit("4:memory:/\n0::/\n", mounted));
  CHECK(memory_limit("5:cpu,cpuacct:/x\n4:memory:/job/step\n0::/\n", mounted)->bytes == 123456);
}

TEST_CASE("Facts of this machine") {
  const MachineFacts facts = machine_facts();
  CHECK(facts.system.starts_with("Linux "));
  CHECK_FALSE(facts.architecture.empty());
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  CHECK(facts.usable_cores == static_cast<unsigned>(CPU_COUNT(&before)));
  CHECK(facts.memory_bytes > facts.available_bytes);
  CHECK(facts.available_bytes > 0);
  struct rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(facts.open_files.value_or(RLIM_INFINITY) == limit.rlim_cur);
}

TEST_CASE("A folder is tried, and nothing is left in it") {
  const test::TempDir temp;
  const FolderFacts facts = probe_folder(temp.path());
  CHECK(facts.refusal.empty());
  CHECK(facts.hard_links);  // as everywhere where tests run
  CHECK(facts.locks);
  CHECK(facts.free_bytes.value_or(0) <= facts.bytes.value_or(0));
  CHECK(fs::is_empty(temp.path()));
  CHECK(probe_folder("/dev/shm").file_system == "tmpfs");  // the root of a chroot has no line in mountinfo
  CHECK_FALSE(probe_folder("/proc/self").refusal.empty());
  CHECK(test::error_id([&] { probe_folder(temp.path() + "/nowhere"); }) == "io_open");
}

}  // namespace dcp
