// save and async_save: of one process, and of several ranks, which are threads here.
#include <algorithm>
#include <barrier>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory_resource>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "api/tensors.h"
#include "base/temp_dir.h"

using namespace dcpctl;
using namespace dcpctl::test;
using dcp::test::TempDir;

namespace {

Shard floats(const std::string& key, const Ints& shape, const float* data) {
  return {.key = key, .dtype = "float32", .shape = shape, .data = data};
}

// What an all_gather of threads needs.
class Threads {
 public:
  explicit Threads(uint32_t size) : texts_(size), barrier_(size) {}
  Group group(uint32_t rank) {
    return {.rank = rank, .size = static_cast<uint32_t>(texts_.size()), .all_gather = [this, rank](const std::string& mine) {
              texts_[rank] = mine;
              barrier_.arrive_and_wait();
              std::vector<std::string> all = texts_;
              barrier_.arrive_and_wait();
              return all;
            }};
  }
  // Runs `save(rank)` on a thread for each; what each threw.
  std::vector<Problem> run(const std::function<void(uint32_t rank)>& save) {
    std::vector<Problem> problems(texts_.size());
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < texts_.size(); ++r) threads.emplace_back([&, r] { problems[r] = thrown([&] { save(r); }); });
    for (std::thread& t : threads) t.join();
    return problems;
  }

 private:
  std::vector<std::string> texts_;
  std::barrier<> barrier_;
};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

// Element (i, j, k) of a tensor of 40 x 50 x 60 that lies in memory with these strides, from `origin` on.
void check_strides(const TempDir& dir, const std::vector<float>& memory, const Ints& strides, size_t origin) {
  const Ints shape{40, 50, 60};
  const std::string path = dir / "strided";
  save(path, std::vector<Shard>{{.key = "t", .dtype = "float32", .shape = shape, .strides = strides, .data = &memory[origin]}},
       {.replace = true});
  const std::vector<float> found = read(path, "t");
  size_t n = 0;
  for (int64_t i = 0; i < 40; ++i)
    for (int64_t j = 0; j < 50; ++j)
      for (int64_t k = 0; k < 60; ++k, ++n) {
        const auto at = static_cast<int64_t>(origin) + i * strides[0] + j * strides[1] + k * strides[2];
        if (found[n] != memory[static_cast<size_t>(at)]) FAIL("element " << n);
      }
}

}  // namespace

TEST_CASE("what is saved is what is read, whatever its strides") {
  const TempDir dir;
  const std::vector<float> memory = counted(2 * 40 * 50 * 60);
  check_strides(dir, memory, {3000, 60, 1}, 0);
  check_strides(dir, memory, {1, 40, 2000}, 7);
  check_strides(dir, memory, {6000, 120, 2}, 0);
  check_strides(dir, memory, {-3000, 60, -1}, 39 * 3000 + 59);
  check_strides(dir, memory, {0, 0, 1}, 3);
}

TEST_CASE("scalars, tensors without elements, and tensors larger than a block") {
  const TempDir dir;
  const float scalar = 3;
  const std::vector<float> large = counted(3 << 20);
  save(dir / "ckpt",
       std::vector<Shard>{floats("s", {}, &scalar), floats("none", {0, 7}, nullptr), floats("large", {3, 1 << 20}, large.data())});
  CHECK(read(dir / "ckpt", "s") == std::vector<float>{3});
  CHECK(read(dir / "ckpt", "none").empty());
  CHECK(read(dir / "ckpt", "large") == large);
  CHECK(verify(dir / "ckpt").findings.empty());
}

TEST_CASE("every dtype that torch has is saved and read") {
  const TempDir dir;
  std::vector<std::byte> bytes(15 * 16);
  for (size_t n = 0; n < bytes.size(); ++n) bytes[n] = static_cast<std::byte>(n * 7 + 1);
  std::vector<Shard> shards;
  const std::vector<std::pair<std::string, size_t>> dtypes{{"bool", 1},     {"uint8", 1},         {"int8", 1},      {"uint16", 2},
                                                           {"int32", 4},    {"int64", 8},         {"float16", 2},   {"float64", 8},
                                                           {"bfloat16", 2}, {"float8_e4m3fn", 1}, {"complex64", 8}, {"complex128", 16}};
  for (const auto& [dtype, size] : dtypes) shards.push_back({.key = dtype, .dtype = dtype, .shape = {3, 5}, .data = bytes.data()});
  save(dir / "ckpt", shards);
  const Checkpoint found = open(dir / "ckpt");
  for (const auto& [dtype, size] : dtypes) {
    INFO(dtype);
    std::vector<std::byte> read(15 * size);
    CHECK(found.tensor(dtype).dtype == dtype);
    found.read(dtype, read);
    CHECK(std::ranges::equal(read, std::span(bytes).first(read.size())));
  }
}

TEST_CASE("a shard that is none is refused, and nothing is left") {
  const TempDir dir;
  const std::vector<float> data = counted(16);
  const auto refused = [&](std::vector<Shard> shards) { return thrown([&] { save(dir / "ckpt", shards); }).got; };
  const Shard good = floats("a", {4, 4}, data.data());
  const auto with = [&](const std::function<void(Shard&)>& change) {
    Shard s = good;
    change(s);
    return refused({s});
  };
  CHECK(refused({}) == "no tensors");
  CHECK(with([](Shard& s) { s.dtype = "half"; }) == "dtype 'half'");
  CHECK(with([](Shard& s) { s.dtype = "qint8"; }) == "dtype qint8");
  CHECK(with([](Shard& s) { s.key = ""; }) == "no key");
  CHECK(with([](Shard& s) { s.key = "\xff"; }) == "a key that is not UTF-8");
  CHECK(with([](Shard& s) { s.path = {"b", "a"}; }) == "path 'b.a'");
  CHECK(with([](Shard& s) { s.data = nullptr; }) == "no data");
  CHECK(with([](Shard& s) { s.shape = {-1}; }) == "shape [-1]");
  CHECK(with([](Shard& s) { s.offsets = {1, 0}; }) == "a box at [1, 0] of [4, 4]");
  CHECK(with([](Shard& s) { s.strides = {1}; }) == "strides [1]");
  CHECK(with([](Shard& s) { s.shape = {int64_t{1} << 40, int64_t{1} << 40}; }) != "");
  CHECK(with([](Shard& s) { s.sizes = {2, 4}; }) == "boxes with 8 of 16 elements");
  CHECK(refused({good, good}) == "one box twice");
  Shard below = good;
  below.key = "a.b", below.path = {"a", "b"};
  CHECK(refused({below, good}) == "a path below that of the tensor 'a'");
  below.key = "a.b", below.path = {"a.b"};
  CHECK(refused({below, good, [&] {
                   Shard s = below;
                   s.path = {"a", "b"};
                   return s;
                 }()}) == "another dtype, shape or path on rank 0");
  const auto of_group = [&](const Group& group) {
    return thrown([&] { save(dir / "ckpt", std::vector<Shard>{good}, {.group = group}); }).got;
  };
  CHECK(of_group({.rank = 2, .size = 2}) == "rank 2 of 2");
  CHECK(of_group({.rank = 9000000, .size = 2}) == "rank 9000000 of 2");
  CHECK(of_group({.rank = 0, .size = 0}) == "rank 0 of 0");
  CHECK(of_group({.rank = 1, .size = 2}) == "no all_gather");
  Shard part = good;
  part.sizes = {3, 4};
  Shard other = good;
  other.offsets = {2, 0}, other.sizes = {2, 4};
  CHECK(refused({part, other}) == "two boxes that both have [2:3, 0:4]");
  CHECK(names_in(dir.path()).empty());

  save(dir / "ckpt", std::vector<Shard>{good});
  CHECK(thrown([&] { save(dir / "ckpt", std::vector<Shard>{good}); }).id == "output_exists");
  CHECK(thrown([&] { save(dir / "no/ckpt", std::vector<Shard>{good}); }).id == "io_create");
}

TEST_CASE("ranks save their boxes, each into its own file") {
  const TempDir dir;
  const std::vector<float> matrix = counted(24), copied = counted(1000), other = counted(10);
  Threads three(3);
  const auto problems = three.run([&](uint32_t rank) {
    std::vector<Shard> shards{floats("copied", {1000}, copied.data())};
    Shard row = floats("matrix", {6, 4}, &matrix[rank * 8]);
    row.offsets = {2 * int64_t{rank}, 0}, row.sizes = {2, 4};
    shards.push_back(row);
    if (rank == 2) shards.push_back(floats("other", {10}, other.data()));
    save(dir / "ckpt", shards, {.group = three.group(rank)});
  });
  for (const Problem& p : problems) CHECK(p.id == "nothing");
  CHECK(names_in(dir / "ckpt") == std::vector<std::string>{".metadata", "__0_0.distcp", "__1_0.distcp", "__2_0.distcp"});
  CHECK(read(dir / "ckpt", "matrix") == matrix);
  CHECK(read(dir / "ckpt", "copied") == copied);
  CHECK(read(dir / "ckpt", "other") == other);
  CHECK(verify(dir / "ckpt").chunks == 5);  // what all three have is written once
  CHECK(names_in(dir.path()) == std::vector<std::string>{"ckpt"});
}

TEST_CASE("what fails on one rank is thrown on all, and nothing is left") {
  const TempDir dir;
  const std::vector<float> data = counted(8);
  const auto problems_of = [&](const std::function<void(uint32_t rank, Shard& shard)>& change) {
    Threads two(2);
    return two.run([&](uint32_t rank) {
      Shard s = floats("t", {8}, data.data() + 4 * rank);
      s.offsets = {4 * int64_t{rank}}, s.sizes = {4};
      change(rank, s);
      save(dir / "ckpt", std::vector<Shard>{s}, {.group = two.group(rank)});
    });
  };
  for (const Problem& p : problems_of([](uint32_t rank, Shard& s) {
         if (rank == 1) s.dtype = "int7";
       })) {
    CHECK(p.got == "dtype 'int7'");
    CHECK(p.rank == 1u);
  }
  for (const Problem& p : problems_of([](uint32_t rank, Shard& s) {
         if (rank == 1) s.dtype = "int32";
       }))
    CHECK(p.got == "another dtype, shape or path on rank 1");
  for (const Problem& p : problems_of([](uint32_t rank, Shard& s) {
         if (rank == 1) s.sizes = {3};
       }))
    CHECK(p.got == "boxes with 7 of 8 elements");
  CHECK(names_in(dir.path()).empty());
  std::filesystem::create_directory(dir / "ckpt");
  std::filesystem::create_directory(dir / "ckpt/inside");
  for (const Problem& p : problems_of([](uint32_t, Shard&) {})) {
    CHECK(p.id == "output_exists");
    CHECK(p.rank == 0u);
  }
  const Group broken{
      .rank = 0, .size = 2, .all_gather = [](const std::string&) -> std::vector<std::string> { throw std::runtime_error("gone"); }};
  const Problem lost = thrown([&] { save(dir / "other", std::vector<Shard>{floats("t", {8}, data.data())}, {.group = broken}); });
  CHECK(lost.id == "rank_lost");
  CHECK(lost.kind == Kind::kRank);
  CHECK(lost.got == "gone");
}

TEST_CASE("async_save writes what the memory held at the call") {
  const TempDir dir;
  std::vector<float> parameters = counted(1 << 18);
  std::mutex step;  // the write cannot begin before the step is over
  Staging staging;
  // Two ranks, of which this test plays the other's part: its texts come once the step is over.
  Threads two(2);
  Group slow = two.group(0);
  slow.all_gather = [&, gather = slow.all_gather](const std::string& mine) {
    const std::lock_guard lock(step);
    return gather(mine);
  };
  std::future<SaveReport> saving;
  std::thread other;
  {
    const std::lock_guard lock(step);
    saving = async_save(dir / "step-1", std::vector<Shard>{floats("p", {1 << 18}, parameters.data())}, staging, {.group = slow});
    for (float& p : parameters) p = -p;
    CHECK(saving.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
    CHECK_FALSE(std::filesystem::exists(dir / "step-1"));
  }
  other = std::thread([&] { save(dir / "step-1", {}, {.group = two.group(1)}); });
  const SaveReport report = saving.get();
  other.join();
  CHECK(report.tensor_bytes == 4 << 18);
  CHECK(read(dir / "step-1", "p") == counted(1 << 18));

  async_save(dir / "step-2", std::vector<Shard>{floats("p", {1 << 18}, parameters.data())}, staging).get();
  CHECK(read(dir / "step-2", "p") == parameters);
}

namespace {

class CountingMemory : public std::pmr::memory_resource {
 public:
  int taken = 0, held = 0;

 private:
  void* do_allocate(size_t bytes, size_t alignment) override {
    ++taken, ++held;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* p, size_t bytes, size_t alignment) override {
    --held;
    std::pmr::new_delete_resource()->deallocate(p, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace

TEST_CASE("one staging buffer serves all saves, and grows to the largest") {
  const TempDir dir;
  CountingMemory memory;
  int runs = 0;
  {
    Staging staging({.memory = &memory, .copy = [&](void* to, const void* from, size_t bytes) {
                       ++runs;
                       std::memcpy(to, from, bytes);
                     }});
    std::vector<float> a = counted(1000), b = counted(4000);
    std::vector<std::future<SaveReport>> saves;
    for (int n = 0; n < 4; ++n) {
      saves.push_back(async_save(dir / std::to_string(n), std::vector<Shard>{floats("a", {10, 100}, a.data())}, staging));
      for (float& value : a) value += 1;
    }
    CHECK(memory.taken == 1);
    CHECK(runs == 4);
    Shard columns = floats("b", {10, 100}, b.data());  // of a matrix of 400 columns: a run for each row
    columns.strides = {400, 1};
    saves.push_back(async_save(dir / "b", std::vector<Shard>{columns, floats("a", {1000}, a.data())}, staging));
    CHECK(memory.taken == 2);
    CHECK(memory.held == 1);
    CHECK(runs == 4 + 10 + 1);
    CHECK(staging.bytes() == 8064);
    for (auto& s : saves) s.get();
    CHECK(read(dir / "3", "a") == counted(1000, 3));
    const std::vector<float> found = read(dir / "b", "b");
    CHECK(found[0] == 0);
    CHECK(found[999] == 9 * 400 + 99);
  }
  CHECK(memory.held == 0);
}

TEST_CASE("a save that fails in the background throws from get, and the next one goes on") {
  const TempDir dir;
  const std::vector<float> data = counted(4);
  Staging staging;
  const std::vector<Shard> shards{floats("t", {4}, data.data())};
  auto no_folder = async_save(dir / "none/ckpt", shards, staging);
  auto no_shards = async_save(dir / "empty", {}, staging);
  auto bad_shard = async_save(dir / "bad", std::vector<Shard>{floats("t", {4}, nullptr)}, staging);
  auto good = async_save(dir / "good", shards, staging);
  CHECK(thrown([&] { no_folder.get(); }).id == "io_create");
  CHECK(thrown([&] { no_shards.get(); }).got == "no tensors");
  CHECK(thrown([&] { bad_shard.get(); }).got == "no data");
  good.get();
  CHECK(read(dir / "good", "t") == data);
  async_save(dir / "dropped", shards, staging);  // nobody waits: the Staging does
  {
    Staging moved = std::move(staging);
  }
  CHECK(read(dir / "dropped", "t") == data);
  CHECK(names_in(dir.path()) == std::vector<std::string>{"dropped", "good"});
}
