// How plans are cut into units: against a count of every element, and as tables of cases.
#include "plan/units.h"

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "base/error_line.h"
#include "catalog/made_blobs.h"
#include "catalog/made_model.h"
#include "catalog/random_checkpoint.h"
#include "plan/opened.h"

using namespace dcp;
using namespace dcp::test;

namespace {

struct Planned {
  explicit Planned(MadeCheckpoint made_, const UnitOptions& units = {}) : made(std::move(made_)) {
    made.put(io, "ckpt");
    opened.emplace(io);
    plan = opened->torch({.limits = {}, .units = units});
  }
  MadeCheckpoint made;
  FakeIo io;
  std::optional<Opened> opened;
  Plan plan;
};

// How many units each element of each planned tensor is in.
std::vector<std::vector<unsigned>> count_elements(const Planned& p) {
  const Catalog& c = p.opened->catalog;
  std::vector<std::vector<unsigned>> times;
  for (const PlanTensor& t : p.plan.tensors) times.emplace_back(c.elements(c.tensors[t.id]), 0);
  const auto add = [&](uint32_t tensor, const Ints& offsets, const Ints& sizes) {
    const Ints strides = row_major_strides(c.dims(c.tensors[p.plan.tensors[tensor].id]));
    for_each_index(sizes, [&](const Ints& index) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d) at += (offsets[d] + index[d]) * strides[d];
      ++times[tensor].at(static_cast<uint64_t>(at));
    });
  };
  for (const Group& g : p.plan.groups) {
    for (uint64_t k = 0; k < g.units; ++k) {
      if (g.kind == Group::Kind::kGrid) {
        const UnitBox unit(p.plan, c, g, k);
        const BoxView box = unit.view();
        add(g.first, {box.offsets.begin(), box.offsets.end()}, {box.sizes.begin(), box.sizes.end()});
      } else if (g.kind == Group::Kind::kStream) {
        const BoxView box = c.box(c.tensors[p.plan.tensors[g.first].id], static_cast<uint32_t>(k));
        add(g.first, {box.offsets.begin(), box.offsets.end()}, {box.sizes.begin(), box.sizes.end()});
      } else if (g.kind == Group::Kind::kBatch) {
        for (uint32_t t = g.first; t < g.first + g.count; ++t) {
          const Dims dims = c.dims(c.tensors[p.plan.tensors[t].id]);
          add(t, Ints(dims.size(), 0), {dims.begin(), dims.end()});
        }
      }
    }
  }
  return times;
}

// "grid t0 [4, 1024] x16", "batch t1+3", ...
std::vector<std::string> described(const Planned& p) {
  std::vector<std::string> lines;
  for (const Group& g : p.plan.groups) {
    std::string line;
    switch (g.kind) {
      case Group::Kind::kGrid: {
        line = "grid t" + std::to_string(g.first) + " [";
        const size_t rank = p.opened->catalog.tensors[p.plan.tensors[g.first].id].rank;
        for (size_t d = 0; d < rank; ++d) line += (d ? ", " : "") + std::to_string(p.plan.numbers[g.steps_at + d]);
        line += "]";
        break;
      }
      case Group::Kind::kBatch: line = "batch t" + std::to_string(g.first) + "+" + std::to_string(g.count); break;
      case Group::Kind::kStream: line = "stream t" + std::to_string(g.first); break;
      case Group::Kind::kScatter: line = "scatter " + std::to_string(g.first); break;
      case Group::Kind::kCopy: line = "copy " + std::to_string(g.first); break;
      case Group::Kind::kCheck: line = "check " + std::to_string(g.first); break;
      case Group::Kind::kBoxes: line = "boxes " + std::to_string(g.first); break;
    }
    lines.push_back(line + " x" + std::to_string(g.units));
  }
  return lines;
}
using Lines = std::vector<std::string>;

MadeTensor tensor_of(const Ints& dims, const std::vector<Box>& boxes, DType dtype = DType::float32) {
  static unsigned count = 0;
  MadeTensor t{.key = "t" + std::to_string(count++), .dtype = dtype, .dims = dims, .chunks = {}};
  for (const Box& b : boxes) t.chunks.push_back({.offsets = b.offsets, .sizes = b.sizes});
  return t;
}
MadeTensor whole(const Ints& dims, DType dtype = DType::float32) { return tensor_of(dims, {{Ints(dims.size(), 0), dims}}, dtype); }

}  // namespace

TEST_CASE("each element is in one unit, and each unit in one group") {
  constexpr uint64_t kBytes[] = {16, 48, 64, 512, 4096, 1 << 20};
  constexpr uint64_t kRuns[] = {1, 16, 100, 4096};
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    Rng rng(seed);
    const UnitOptions units{.unit_bytes = kBytes[rng() % 6], .min_run = kRuns[rng() % 4]};
    CAPTURE(seed, units.unit_bytes, units.min_run);
    const Planned p(random_checkpoint(seed), units);
    for (const auto& times : count_elements(p)) REQUIRE(std::ranges::all_of(times, [](unsigned n) { return n == 1; }));

    uint64_t next = 0;
    for (const Group& g : p.plan.groups) {
      REQUIRE(g.first_unit == next);
      REQUIRE(g.units > 0);
      for (const uint64_t unit : {next, next + g.units - 1}) REQUIRE(&p.plan.group_of(unit) == &g);
      next += g.units;
      if (g.kind != Group::Kind::kGrid) continue;
      const UnitBox unit(p.plan, p.opened->catalog, g, 0);
      const BoxView box = unit.view();
      const Tensor& t = p.opened->catalog.tensors[p.plan.tensors[g.first].id];
      REQUIRE(volume(box.sizes) * bytes_of(t.dtype) <= std::max({4 * units.unit_bytes, units.min_run, uint64_t{16}}));
    }
    REQUIRE(next == p.plan.units);
  }
}

TEST_CASE("how the CRC of each record is checked") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const Planned p(random_checkpoint(seed), {.unit_bytes = 64});
    std::multiset<ItemId> passes, expected;
    for (const Group& g : p.plan.groups)
      if (g.kind == Group::Kind::kCheck)
        for (uint32_t r = g.first; r < g.first + g.count; ++r) passes.insert(p.plan.records[r].item);
    uint64_t unchecked = 0;
    std::set<std::string> converted;
    for (TensorId t = 0; t < p.made.tensors.size(); ++t) {
      const Tensor& tensor = p.opened->catalog.tensors[t];
      const MadeTensor& made = p.made.tensors[t];
      const auto live = [](const MadeChunk& c) { return volume(c.sizes) > 0; };
      const bool streamed = std::ranges::any_of(made.chunks, [&](const MadeChunk& c) { return live(c) && c.zstd; });
      for (const MadeChunk& c : made.chunks) {
        if (!live(c)) continue;
        unchecked += !c.crc;
        if (c.stored && *c.stored != made.dtype) converted.insert(made.key);
        uint32_t n = 0;
        while (!std::ranges::equal(p.opened->catalog.box(tensor, n).offsets, c.offsets) ||
               volume(p.opened->catalog.box(tensor, n).sizes) == 0)
          ++n;
        const ItemId item = p.opened->catalog.item_of(tensor, n);
        const bool exact = p.opened->resolved.items[item].strides_at == 0 && storage_elements(c) == volume(c.sizes);
        const CrcCheck check = !c.crc ? CrcCheck::kUnchecked : exact || streamed ? CrcCheck::kFromUnits : CrcCheck::kSeparatePass;
        REQUIRE(p.plan.checks[item] == check);
        if (check == CrcCheck::kSeparatePass) expected.insert(item);
      }
    }
    REQUIRE(passes == expected);
    REQUIRE(p.plan.unchecked_records == unchecked);
    std::set<std::string> noted;
    for (const KeyNote& n : p.plan.converted) REQUIRE(noted.insert(n.key).second);
    REQUIRE(noted == converted);
  }
}

TEST_CASE("bands of rows, and blocks where the runs of a band would be short") {
  const auto cut = [](const Ints& dims, const std::vector<Ints>& cuts, const UnitOptions& units) {
    return described(Planned(checkpoint_of({tensor_of(dims, grid_tiling(cuts))}), units)).at(0);
  };
  const auto equal = [](int64_t pieces, int64_t each) { return Ints(static_cast<size_t>(pieces), each); };
  // Rows of 16 KiB; over columns of 256 bytes a band of 4 rows would be runs of 256 bytes, 4 together 1 KiB.
  CHECK(cut({64, 4096}, {{64}, {4096}}, {.unit_bytes = 65536}) == "grid t0 [4, 4096] x16");
  CHECK(cut({64, 4096}, {equal(8, 8), {4096}}, {.unit_bytes = 65536}) == "grid t0 [4, 4096] x16");
  CHECK(cut({64, 4096}, {{64}, equal(64, 64)}, {.unit_bytes = 65536}) == "grid t0 [16, 1024] x16");
  CHECK(cut({64, 4096}, {{64}, equal(64, 64)}, {.unit_bytes = 16384}) == "grid t0 [4, 1024] x64");
  CHECK(cut({64, 4096}, {{64}, equal(64, 64)}, {.unit_bytes = 65536, .min_run = 512}) == "grid t0 [4, 4096] x16");
  CHECK(cut({64, 4096}, {{64}, equal(4, 1024)}, {.unit_bytes = 65536}) == "grid t0 [4, 4096] x16");
  // Later dims stay whole in a block; the dims between stay fixed.
  CHECK(cut({16, 8, 256, 8}, {{16}, {8}, equal(64, 4), {8}}, {.unit_bytes = 8192}) == "grid t0 [1, 2, 128, 8] x128");
  CHECK(cut({100}, {{100}}, {.unit_bytes = 64}) == "grid t0 [16] x7");
  CHECK(cut({3, 100}, {{3}, {100}}, {.unit_bytes = 64}) == "grid t0 [1, 16] x21");
  CHECK(cut({3, 5}, {{3}, {5}}, {.unit_bytes = 64}) == "grid t0 [3, 5] x1");  // between half a unit and a unit
}

TEST_CASE("column-major chunks are cut into blocks of four units") {
  MadeTensor t = whole({1024, 2048});
  t.chunks[0].strides = {1, 1024};
  CHECK(described(Planned(checkpoint_of({t}), {.unit_bytes = 65536})) == Lines{"grid t0 [64, 1024] x32", "check 0 x2"});
  MadeTensor three = whole({64, 64, 64});
  three.chunks[0].strides = {64, 4096, 1};  // the last dim is still the fastest
  CHECK(described(Planned(checkpoint_of({three}), {.unit_bytes = 65536})).at(0) == "grid t0 [4, 64, 64] x16");
}

TEST_CASE("small tensors share a unit") {
  const auto tensors = [](std::vector<int64_t> bytes) {
    std::vector<MadeTensor> all;
    for (const int64_t n : bytes) all.push_back(whole({n}, DType::uint8));
    return described(Planned(checkpoint_of(std::move(all)), {.unit_bytes = 100}));
  };
  CHECK(tensors({50, 50, 50, 50, 50}) == Lines{"batch t0+2 x1", "batch t2+2 x1", "batch t4+1 x1"});
  CHECK(tensors({50, 0, 50, 0}) == Lines{"batch t0+3 x1"});
  CHECK(tensors({10, 51, 10}) == Lines{"batch t0+1 x1", "grid t1 [51] x1", "batch t2+1 x1"});
  CHECK(tensors({10, 500, 10}) == Lines{"batch t0+1 x1", "grid t1 [100] x5", "batch t2+1 x1"});
  CHECK(tensors({0, 0}).empty());
  CHECK(tensors(std::vector<int64_t>(100, 1)) == Lines{"batch t0+100 x1"});
}

TEST_CASE("streams, copies and passes") {
  Rng rng(3);
  MadeCheckpoint made = checkpoint_of({whole({10}), tensor_of({9}, grid_tiling({{4, 5}})), whole({12})});
  made.tensors[1].chunks[1].zstd = true;
  made.tensors[2].chunks[0].extra_elements = 1 << 20;  // a storage of 4 MiB and a little
  made.blobs = {nested_blob(rng, "b", {1, 0, (1 << 20) + 1})};
  const Planned p(made);
  CHECK(described(p) == Lines{"copy 0 x1", "copy 2 x2", "batch t0+1 x1", "stream t1 x2", "batch t2+1 x1", "check 0 x2"});
  const auto item = [&](uint32_t tensor, size_t chunk) { return p.made.tensors[tensor].chunks[chunk].length; };
  const uint64_t copies = 4 + (4 << 20) + 4, check = (4 << 20) + 48;
  CHECK(p.plan.bytes_to_read == copies + 40 + item(1, 0) + item(1, 1) + 48 + check);
  CHECK(p.plan.elements == 31);
  CHECK(p.plan.tensor_bytes == 31 * 4);
  CHECK(p.plan.largest_tensor == 48);
}

TEST_CASE("a stored dtype that cannot become the metadata's") {
  MadeCheckpoint made = checkpoint_of({whole({4}, DType::float4_e2m1fn_x2)});
  made.tensors[0].chunks[0].stored = DType::float32;
  CHECK(error_id([&] { Planned p(made); }) == "dtype_not_convertible");
  made = checkpoint_of({whole({4}, DType::bfloat16)});
  made.tensors[0].key = "w";
  made.tensors[0].chunks[0].stored = DType::float32;
  const Planned p(made);
  REQUIRE(p.plan.converted.size() == 1);
  CHECK(p.plan.converted[0].key == "w");
  CHECK(p.plan.converted[0].text == "stored as float32, the metadata says bfloat16");
}
