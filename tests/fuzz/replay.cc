// A target without libFuzzer: runs each file of a corpus, then for some seconds changed copies of them.
//
//   replay_TARGET CORPUS [SECONDS]
//
// Changes are blind, drawn from a fixed seed, and end after kMaxCopies: what passes on one machine goes on to pass on a faster one. To
// look for what nobody has found yet there is ./dev fuzz. A find is left in the working folder as crash-TARGET.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz.h"

namespace {

constexpr uint64_t kMaxCopies = 1'000'000;

using Input = std::vector<char>;

Input g_input;  // the one that runs, for the signal handler

extern "C" void on_crash(int number) {
  std::signal(number, SIG_DFL);
  std::ofstream("crash-" FUZZ_TARGET, std::ios::binary).write(g_input.data(), static_cast<std::streamsize>(g_input.size()));
  constexpr char kText[] = "the input is in crash-" FUZZ_TARGET "\n";
  (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
  std::raise(number);
}

// False: refused.
bool run_one() {
  try {
    dcp::fuzz::run(std::as_bytes(std::span(g_input)));
    return true;
  } catch (const dcp::Error&) {
    return false;
  }
}

using Random = std::mt19937_64;

uint64_t below(Random& random, uint64_t end) { return end == 0 ? 0 : random() % end; }

void change(Input& input, const Input& other, Random& random) {
  constexpr uint64_t kNumbers[] = {0,           1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff,
                                   ~uint64_t{0}};
  const uint64_t at = below(random, input.size());
  const auto here = input.begin() + static_cast<std::ptrdiff_t>(at);
  const uint64_t count = std::min(below(random, 16) + 1, input.size() - at);
  switch (below(random, 7)) {
    case 0:
      if (!input.empty()) *here = static_cast<char>(*here ^ (1 << below(random, 8)));
      break;
    case 1:
      if (!input.empty()) *here = static_cast<char>(random());
      break;
    case 2: {  // a number that is often wrong, of 1, 2, 4 or 8 bytes
      const uint64_t number = kNumbers[below(random, std::size(kNumbers))];
      std::memcpy(input.data() + at, &number, std::min<uint64_t>(uint64_t{1} << below(random, 4), input.size() - at));
      break;
    }
    case 3: input.erase(here, here + static_cast<std::ptrdiff_t>(count)); break;
    case 4: {
      const Input again(here, here + static_cast<std::ptrdiff_t>(count));
      input.insert(input.begin() + static_cast<std::ptrdiff_t>(below(random, input.size() + 1)), again.begin(), again.end());
      break;
    }
    case 5: {  // the end of another input
      const auto from = other.begin() + static_cast<std::ptrdiff_t>(below(random, other.size()));
      input.erase(here, input.end());
      input.insert(input.end(), from, other.end());
      break;
    }
    default: input.resize(at);
  }
}

std::vector<Input> read_corpus(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Input> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(number, on_crash);
  const std::vector<Input> corpus = read_corpus(argv[1]);
  uint64_t accepted = 0;
  for (const Input& input : corpus) {
    g_input = input;
    accepted += run_one();
  }
  const std::chrono::seconds seconds(argc > 2 ? std::atoi(argv[2]) : 0);
  const auto end = std::chrono::steady_clock::now() + seconds;
  Random random(1);
  uint64_t copies = 0;
  for (; !corpus.empty() && copies < kMaxCopies && std::chrono::steady_clock::now() < end; ++copies) {
    g_input = corpus[below(random, corpus.size())];
    for (uint64_t n = below(random, 6) + 1; n > 0; --n) change(g_input, corpus[below(random, corpus.size())], random);
    run_one();
  }
  std::printf("%zu inputs, %lu accepted, %lu changed ones\n", corpus.size(), accepted, copies);
  return accepted > 0 ? 0 : 1;  // a corpus that is refused as a whole shows nothing
}
