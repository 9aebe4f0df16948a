// save_ranks FOLDER MEETING RANK SIZE    saves a matrix of which each of SIZE processes has some rows, as one checkpoint
//
// The processes need a way to exchange texts. Here it is files in the folder MEETING, which all of them see; a trainer would use what it has,
// such as an all-gather of MPI or of c10d.
#include <dcpctl/dcpctl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

// Writes a text of its own in each round, then waits for those of the others.
class Meeting {
 public:
  Meeting(std::string folder, uint32_t rank, uint32_t size) : folder_(std::move(folder)), rank_(rank), size_(size) {}

  std::vector<std::string> all_gather(const std::string& mine) {
    const std::string name = folder_ + "/round-" + std::to_string(round_++) + "-";
    const std::string own = name + std::to_string(rank_);
    std::ofstream(own + ".part", std::ios::binary) << mine;
    std::filesystem::rename(own + ".part", own);
    std::vector<std::string> texts;
    for (uint32_t r = 0; r < size_; ++r) texts.push_back(text_of(name + std::to_string(r)));
    return texts;
  }

 private:
  static std::string text_of(const std::string& path) {
    for (int tries = 0; tries < 6000; ++tries) {
      if (std::ifstream file(path, std::ios::binary); file) return {std::istreambuf_iterator<char>(file), {}};
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    throw std::runtime_error("no " + path + " within a minute");
  }
  const std::string folder_;
  const uint32_t rank_, size_;
  int round_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) return std::fprintf(stderr, "usage: save_ranks FOLDER MEETING RANK SIZE\n"), 2;
  const auto rank = static_cast<uint32_t>(std::atoi(argv[3])), size = static_cast<uint32_t>(std::atoi(argv[4]));
  Meeting meeting(argv[2], rank, size);

  // Rank r has r + 1 rows of four; element i of the matrix is i.
  const int64_t rows = int64_t{size} * (size + 1) / 2, first = int64_t{rank} * (rank + 1) / 2;
  std::vector<float> mine(4 * (rank + 1));
  std::iota(mine.begin(), mine.end(), static_cast<float>(4 * first));
  const std::vector<dcpctl::Shard> shards{{.key = "model.weight",
                                           .dtype = "float32",
                                           .shape = {rows, 4},
                                           .offsets = {first, 0},
                                           .sizes = {int64_t{rank} + 1, 4},
                                           .data = mine.data(),
                                           .path = {"model", "weight"}}};
  const auto all_gather = [&](const std::string& text) { return meeting.all_gather(text); };
  dcpctl::save(argv[1], shards, {.group = {.rank = rank, .size = size, .all_gather = all_gather}});
} catch (const dcpctl::Error& error) {
  std::fprintf(stderr, "rank %s: %s\n", argv[3], error.what());
  return static_cast<int>(error.kind());
}
