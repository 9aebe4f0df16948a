// Many parts of many tensors in one call: what they hold, what is read for them, and which CRCs are compared.
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "api/tensors.h"
#include "base/temp_dir.h"

using namespace dcpctl;
using namespace dcpctl::test;
using dcp::test::TempDir;

namespace {

// Rows of a matrix of counted floats in boxes of `rows`.
std::vector<Shard> row_shards(const std::string& key, const std::vector<float>& values, int64_t columns, int64_t rows) {
  const int64_t all = static_cast<int64_t>(values.size()) / columns;
  std::vector<Shard> shards;
  for (int64_t at = 0; at < all; at += rows)
    shards.push_back({.key = key,
                      .dtype = "float32",
                      .shape = {all, columns},
                      .offsets = {at, 0},
                      .sizes = {std::min(rows, all - at), columns},
                      .data = values.data() + at * columns});
  return shards;
}

uint64_t file_bytes(const std::string& path) { return std::filesystem::file_size(path + "/__0_0.distcp"); }

// Changes a byte in the middle of a file's first record that holds floats.
void damage(const std::string& path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace

TEST_CASE("parts that cross, are the same, or lie in memory in any order") {
  const TempDir dir;
  std::mt19937 random(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 60; ++round) {
    const int64_t rows = 1 + below(40), columns = 1 + below(30);
    const std::vector<float> values = counted(static_cast<size_t>(rows * columns));
    const std::string path = dir / ("ckpt" + std::to_string(round));
    save(path, row_shards("m", values, columns, 1 + below(rows)));
    const Checkpoint checkpoint = open(path);
    struct Wanted {
      Part part;
      std::vector<float> memory, expected;
    };
    std::vector<Wanted> wanted(1 + static_cast<size_t>(below(12)));
    for (Wanted& w : wanted) {
      const int64_t r = below(rows + 1), c = below(columns + 1), height = below(rows - r + 1), width = below(columns - c + 1);
      const int64_t down = 1 + below(3), gap = below(4);
      const bool transposed = below(2) == 0;
      w.part = {.key = "m", .slice = {{.start = r, .count = (height + down - 1) / down, .step = down}, {.start = c, .count = width}}};
      const int64_t high = w.part.slice[0].count, stride = (transposed ? high : width) + gap;
      w.memory.assign(static_cast<size_t>((transposed ? width : high) * stride), -1);
      w.expected = w.memory;
      w.part.to = w.memory.data();
      w.part.strides = transposed ? Ints{4, stride * 4} : Ints{stride * 4, 4};
      for (int64_t i = 0; i < high; ++i)
        for (int64_t k = 0; k < width; ++k)
          w.expected[static_cast<size_t>(transposed ? k * stride + i : i * stride + k)] =
              values[static_cast<size_t>((r + i * down) * columns + c + k)];
    }
    std::vector<Part> parts;
    for (const Wanted& w : wanted) parts.push_back(w.part);
    checkpoint.read(parts);
    for (const Wanted& w : wanted) CHECK(w.memory == w.expected);
  }
}

TEST_CASE("no byte is read twice in a call, and headers once for a checkpoint") {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const std::vector<float> values = counted(1 << 20);
  save(path, row_shards("m", values, 1024, 256));
  const Checkpoint checkpoint = open(path);
  std::vector<std::vector<float>> memory(5, std::vector<float>(values.size()));
  std::vector<Part> parts;
  for (auto& m : memory) parts.push_back({.key = "m", .to = m.data()});
  parts[3].slice = {{.count = 500}, {}};
  parts[4].slice = {{.start = 300, .count = 10}, {.start = 3, .count = 7}};
  const ReadReport first = checkpoint.read(parts);
  CHECK(memory[0] == values);
  CHECK(memory[1] == values);
  CHECK(first.bytes_read >= values.size() * sizeof(float));
  CHECK(first.bytes_read <= values.size() * sizeof(float) + 4 * 2048);  // an item's head and tail
  CHECK(first.records_compared == 4);
  CHECK(first.records_not_compared == 0);
  const ReadReport again = checkpoint.read(std::span(parts).first(1));
  CHECK(again.bytes_read == values.size() * sizeof(float));
  CHECK(again.records_compared == 4);
}

TEST_CASE("of parts that cross no more is read than both have") {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const std::vector<float> values = counted(1 << 20);
  save(path, row_shards("m", values, 1 << 13, 128));  // rows that are too far from each other to be read together
  std::vector<float> row(1 << 13), column(128);
  const std::vector<Part> parts{{.key = "m", .slice = {{}, {.start = 77, .count = 1}}, .to = column.data()},
                                {.key = "m", .slice = {{.start = 5, .count = 1}, {}}, .to = row.data()}};
  CHECK(open(path).read(parts).bytes_read < 64 << 10);
  CHECK(std::equal(row.begin(), row.end(), values.begin() + (5 << 13)));
  for (size_t r = 0; r < column.size(); ++r) CHECK(column[r] == values[(r << 13) + 77]);
}

TEST_CASE("a column of a large matrix takes little memory beside its elements") {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const uint8_t one = 1;
  save(path, std::vector<Shard>{{.key = "m", .dtype = "uint8", .shape = {4 << 20, 16}, .strides = {0, 0}, .data = &one}});
  const Checkpoint checkpoint = open(path);
  std::vector<uint8_t> column(4 << 20);
  const int64_t before = peak_bytes();
  checkpoint.read(std::vector<Part>{{.key = "m", .slice = {{}, {.count = 1}}, .to = column.data()}}, {.threads = 1});
  CHECK(peak_bytes() - before < 64 << 20);
  CHECK(std::count(column.begin(), column.end(), one) == 4 << 20);
}

TEST_CASE("many small tensors are read by few reads, and little more than their files") {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const std::vector<float> values = counted(4096);
  std::vector<Shard> shards;
  for (int n = 0; n < 300; ++n)
    shards.push_back({.key = "t." + std::to_string(n), .dtype = "float32", .shape = {4096}, .data = values.data()});
  save(path, shards);
  const Checkpoint checkpoint = open(path);
  std::vector<std::vector<float>> memory(shards.size(), std::vector<float>(values.size()));
  std::vector<Part> parts;
  for (size_t n = 0; n < shards.size(); ++n) parts.push_back({.key = shards[n].key, .to = memory[n].data()});
  const ReadReport report = checkpoint.read(parts);
  for (const auto& m : memory) CHECK(m == values);
  CHECK(report.records_compared == shards.size());
  CHECK(report.bytes_read <= file_bytes(path) * 115 / 100);
}

TEST_CASE("a record is compared if the parts cover it, and only then") {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const std::vector<float> values = counted(4096);
  save(path, row_shards("m", values, 64, 32));
  damage(path + "/__0_0.distcp", file_bytes(path) / 4);
  std::vector<float> memory(values.size());
  const auto halves = [&](int64_t rows) {
    return std::vector<Part>{{.key = "m", .slice = {{.count = rows}, {.count = 40}}, .to = memory.data()},
                             {.key = "m", .slice = {{.count = rows}, {.start = 40}}, .to = memory.data() + 40 * rows}};
  };
  CHECK(thrown([&] { open(path).read(halves(32)); }).id == "crc_mismatch");
  CHECK(thrown([&] { open(path).read(halves(64)); }).id == "crc_mismatch");
  const ReadReport part = open(path).read(halves(31));
  CHECK(part.records_compared == 0);
  CHECK(part.records_not_compared == 1);
  // Other rows are those of another record.
  const std::vector<Part> rest{{.key = "m", .slice = {{.start = 32}, {}}, .to = memory.data()}};
  const ReadReport sound = open(path).read(rest);
  CHECK(sound.records_compared == 1);
  CHECK(std::equal(values.begin() + 32 * 64, values.end(), memory.begin()));
}

TEST_CASE("nothing is written if a part is wrong, and a call can be cancelled") {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const std::vector<float> values = counted(64);
  save(path, row_shards("m", values, 8, 8));
  const Checkpoint checkpoint = open(path);
  std::vector<float> memory(64, -1);
  std::vector<Part> parts{{.key = "m", .to = memory.data()}, {.key = "m", .slice = {{.start = 9}, {}}, .to = memory.data()}};
  CHECK(thrown([&] { checkpoint.read(parts); }).id == "usage");
  parts[1] = {.key = "m", .to = memory.data(), .strides = {4}};
  CHECK(thrown([&] { checkpoint.read(parts); }).id == "usage");
  parts.pop_back();
  Control control;
  control.cancel();
  CHECK(thrown([&] { checkpoint.read(parts, {.control = &control}); }).id == "interrupted");
  CHECK(memory == std::vector<float>(64, -1));
  Control another;
  checkpoint.read(parts, {.control = &another});
  CHECK(memory == values);
  CHECK(another.bytes_total() == 256);
  CHECK(another.bytes_done() == 256);
}

TEST_CASE("parts of what a map makes are those of the whole") {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const std::vector<float> values = counted(24 * 5);
  save(path, row_shards("wq", values, 5, 7));
  std::ofstream(dir / "own.map") << "family own\nsize h = heads\nwq [(h d 2) i] = model.q.weight [(h 2 d) i]\n";
  std::ofstream(dir / "config.json") << "{\"model_type\": \"own\", \"heads\": 3}";
  const Checkpoint checkpoint = open(path, {.map = dir / "own.map", .map_config = dir / "config.json"});
  REQUIRE(checkpoint.tensors().size() == 1);
  CHECK(checkpoint.tensors()[0].key == "model.q.weight");
  std::vector<float> expected(values.size()), whole(values.size());
  for (size_t h = 0; h < 3; ++h)
    for (size_t two = 0; two < 2; ++two)
      for (size_t d = 0; d < 4; ++d)
        for (size_t i = 0; i < 5; ++i) expected[((h * 2 + two) * 4 + d) * 5 + i] = values[((h * 4 + d) * 2 + two) * 5 + i];
  const std::vector<Part> all{{.key = "model.q.weight", .to = whole.data()}};
  const ReadReport report = checkpoint.read(all);
  CHECK(whole == expected);
  CHECK(report.records_compared == 4);
  // Rows that begin and end inside a head.
  std::vector<float> rows(11 * 3, -1);
  const std::vector<Part> some{
      {.key = "model.q.weight", .slice = {{.start = 6, .count = 11}, {.start = 1, .count = 3}}, .to = rows.data()}};
  checkpoint.read(some);
  for (size_t r = 0; r < 11; ++r)
    for (size_t c = 0; c < 3; ++c) CHECK(rows[r * 3 + c] == expected[(r + 6) * 5 + c + 1]);
}

TEST_CASE("what a map ties is compared before it is read, and CRCs of the whole beside a part in steps") {
  const TempDir dir;
  const std::vector<float> values = counted(8), others = counted(8, 1);
  std::ofstream(dir / "own.map") << "family own\nemb = e\nhead = h same as e when tie\n";
  std::ofstream(dir / "config.json") << "{\"model_type\": \"own\", \"tie\": true}";
  const auto read_e = [&](const std::vector<float>& head) {
    std::vector<Shard> shards = row_shards("emb", values, 8, 1);
    shards.push_back(row_shards("head", head, 8, 1)[0]);
    save(dir / "ckpt", shards, {.replace = true});
    std::vector<float> whole(8), odd(4);
    const std::vector<Part> parts{{.key = "e", .to = whole.data()}, {.key = "e", .slice = {{}, {.start = 1, .step = 2}}, .to = odd.data()}};
    return open(dir / "ckpt", {.map = dir / "own.map", .map_config = dir / "config.json"}).read(parts).records_compared;
  };
  CHECK(read_e(values) == 1);
  CHECK(thrown([&] { read_e(others); }).id == "map_tied_differ");
}
