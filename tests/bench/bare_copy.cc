// bench_bare_copy OUT IN...: what the machine allows, and so the yardstick of `consolidate`.
// Joins the files IN into OUT, preallocated with fallocate, by two threads of pread and pwrite in 1 MiB blocks. Nothing is synced.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr uint64_t kBlock = uint64_t{1} << 20;
constexpr unsigned kThreads = 2;

struct Block {
  int file;
  uint64_t from, to, bytes;  // offsets in the input and in OUT
};

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

void copy(const Block& block, int out, std::vector<char>& buffer) {
  for (uint64_t done = 0; done < block.bytes;) {
    const ssize_t got = pread(block.file, buffer.data(), block.bytes - done, static_cast<off_t>(block.from + done));
    if (got <= 0) die("pread");
    for (ssize_t put = 0; put < got;) {
      const ssize_t n = pwrite(out, buffer.data() + put, static_cast<size_t>(got - put), static_cast<off_t>(block.to + done) + put);
      if (n <= 0) die("pwrite");
      put += n;
    }
    done += static_cast<uint64_t>(got);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: bench_bare_copy OUT IN...\n", stderr);
    return 2;
  }
  std::vector<Block> blocks;
  uint64_t total = 0;
  for (int i = 2; i < argc; i++) {
    const int file = open(argv[i], O_RDONLY | O_CLOEXEC);
    struct stat facts;
    if (file < 0 || fstat(file, &facts) != 0) die(argv[i]);
    const auto bytes = static_cast<uint64_t>(facts.st_size);
    for (uint64_t at = 0; at < bytes; at += kBlock) blocks.push_back({file, at, total + at, std::min(kBlock, bytes - at)});
    total += bytes;
  }
  const int out = open(argv[1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (out < 0) die(argv[1]);
  if (total > 0 && fallocate(out, 0, 0, static_cast<off_t>(total)) != 0) die("fallocate");

  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; t++) {
    threads.emplace_back([&] {
      std::vector<char> buffer(kBlock);
      for (size_t i = next++; i < blocks.size(); i = next++) copy(blocks[i], out, buffer);
    });
  }
  for (std::thread& t : threads) t.join();
  return close(out) == 0 ? 0 : 1;
}
