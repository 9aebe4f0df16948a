// Verification from end to end: random checkpoints are whole, every changed bit is found, digests mean the elements and nothing else.
#include <catch2/catch_test_macros.hpp>

#include "base/seeds.h"
#include "base/sums.h"
#include "catalog/made_blobs.h"
#include "catalog/made_torch_file.h"
#include "exec/random_run.h"
#include "exec/verified.h"
#include "select/empty_model.h"

using namespace dcp;
using namespace dcp::test;

namespace {

uint64_t crc64_of(std::string_view text) { return crc64_finish(crc64_raw(as_bytes(text)), text.size()); }

// The elements as a digest has them.
std::map<std::string, uint64_t> expected_digests(const MadeCheckpoint& made) {
  std::map<std::string, uint64_t> all;
  for (const MadeTensor& t : made.tensors) all[t.key] = crc64_of(model_bytes(t));
  return all;
}

std::string texts(const std::vector<Problem>& findings) {
  std::string text;
  for (const Problem& p : findings) text += to_line(p) + "\n";
  return text;
}

void flip(FakeIo& io, const std::string& path, uint64_t at, unsigned bit) {
  std::string bytes = io.text_of(path);
  bytes.at(at) = static_cast<char>(bytes[at] ^ (1 << bit));
  io.put(path, bytes);
}

// Tensors without elements need no storage, and then begin nowhere else than at its start.
MadeCheckpoint sound_checkpoint(uint64_t seed, const RandomOptions& o = {}) {
  MadeCheckpoint made = random_checkpoint(seed, o);
  for (MadeTensor& t : made.tensors)
    for (MadeChunk& c : t.chunks)
      if (volume(c.sizes) == 0) c.storage_offset = 0;
  return made;
}

UnitOptions varied_units(Rng& rng) {
  UnitOptions units = random_units(rng);
  units.pass_gap = rng() % 3 * 100;
  return units;
}

}  // namespace

TEST_CASE("random checkpoints have no damage, and their digests are those of their elements") {
  for (uint64_t seed = 1; seed <= seeds(400); ++seed) {
    CAPTURE(seed);
    MadeCheckpoint made = sound_checkpoint(seed);
    Rng rng(seed);
    made.blobs = {nested_blob(rng, "state", {3, 40}), number_blob("step", 7)};
    made.blobs[0].zstd = seed % 3 == 0;
    FakeIo io;
    made.put(io, "ckpt");
    const Verified plain(io);
    CAPTURE(texts(plain.findings));
    if (find_empty_model(plain.catalog)) continue;  // that is no model
    REQUIRE(plain.damage() == 0);
    CHECK(plain.digests.empty());
    const Verified v(io, {.digests = true, .workers = 2, .units = varied_units(rng)});
    CAPTURE(texts(v.findings));
    REQUIRE(v.damage() == 0);
    std::map<std::string, uint64_t> expected = expected_digests(made);
    expected["state"] = crc64_of(made.blobs[0].pickle + made.blobs[0].storages[0].bytes + made.blobs[0].storages[1].bytes);
    expected["step"] = crc64_of(made.blobs[1].pickle);
    REQUIRE(v.digests == expected);
    // Without digests each record is read by a pass, with them by units where they can.
    CHECK(v.plan.data_records == plain.plan.data_records);
    CHECK(v.compared() == plain.compared());
  }
}

TEST_CASE("every flipped bit of a storage with a CRC is one finding, with and without digests, in any order of work") {
  uint64_t flips = 0;
  for (uint64_t seed = 1; seed <= seeds(100); ++seed) {
    MadeCheckpoint made = sound_checkpoint(seed, {.zstd = false});
    Rng rng(seed);
    FakeIo io;
    made.put(io, "ckpt");
    for (const MadeTensor& t : made.tensors) {
      for (const MadeChunk& c : t.chunks) {
        if (!c.crc || c.storage.empty()) continue;
        const std::string path = "ckpt/" + MadeCheckpoint::file_name(c.file);
        const std::string whole = io.text_of(path);
        flip(io, path, c.payload + rng() % c.storage.size(), rng() % 8);
        CAPTURE(seed, t.key, c.payload);
        for (const bool digests : {false, true}) {
          const Verified v(io, {.digests = digests, .workers = 1 + static_cast<unsigned>(rng() % 3), .units = varied_units(rng)});
          CAPTURE(digests, texts(v.findings));
          REQUIRE(v.damage() == 1);
          const auto p = std::ranges::find(v.findings, Severity::kDamage, &Problem::severity);
          CHECK(p->id == ProblemId::crc_mismatch);
          CHECK(p->place.tensor == t.key);
          CHECK(p->place.path == path);
          CHECK(p->place.offset == c.payload);
          CHECK(p->place.length == c.storage.size());
        }
        io.put(path, whole);
        ++flips;
      }
    }
  }
  CHECK(flips > seeds(300));
}

TEST_CASE("one bad item does not hide another, nor the digests of the others") {
  MadeCheckpoint made;
  for (const char* key : {"a", "b", "c", "d"}) made.tensors.push_back({key, DType::float32, {4, 4}, {whole_chunk({4, 4})}});
  made.tensors[3].chunks[0].file = 1;
  FakeIo io;
  made.put(io, "ckpt");
  const auto& at = [&](size_t i) -> const MadeChunk& { return made.tensors[i].chunks[0]; };
  flip(io, "ckpt/__0_0.distcp", at(0).at + at(0).length - 20, 0);  // the end record
  flip(io, "ckpt/__0_0.distcp", at(1).payload + 5, 3);
  std::string cut = io.text_of("ckpt/__1_0.distcp");
  cut.pop_back();
  io.put("ckpt/__1_0.distcp", cut);
  const Verified v(io, {.digests = true});
  CAPTURE(texts(v.findings));
  REQUIRE(v.findings.size() == 3);
  CHECK(v.findings[0].id == ProblemId::zip_no_end);
  CHECK(v.findings[1].id == ProblemId::crc_mismatch);
  CHECK(v.findings[2].id == ProblemId::item_past_end);
  CHECK(v.digests.contains("c"));
  CHECK(v.digests.at("c") == crc64_of(model_bytes(made.tensors[2])));
  CHECK_FALSE(v.digests.contains("a"));
  CHECK_FALSE(v.digests.contains("d"));
}

TEST_CASE("a file that cannot be read is a finding, and the others are verified") {
  MadeCheckpoint made;
  for (unsigned i = 0; i < 3; ++i) {
    made.tensors.push_back({std::string(1, static_cast<char>('a' + i)), DType::uint8, {200'000}, {whole_chunk({200'000})}});
    made.tensors[i].chunks[0].file = i;
  }
  FakeIo io;
  made.put(io, "ckpt");
  const uint64_t reads = [&] {
    const uint64_t before = io.calls(dcp::test::Op::kRead);
    const Verified v(io);
    REQUIRE(v.findings.empty());
    return io.calls(dcp::test::Op::kRead) - before;
  }();
  const uint64_t begin = io.calls(dcp::test::Op::kRead);
  io.fail_at(dcp::test::Op::kRead, begin + reads - 1, ProblemId::io_read);  // the last read is of the last record
  const Verified v(io);
  REQUIRE(v.findings.size() == 1);
  CHECK(v.findings[0].id == ProblemId::io_read);
  CHECK(v.executed.records_checked == 2);
}

TEST_CASE("the findings are the same for any number of workers") {
  MadeCheckpoint made = sound_checkpoint(5, {.zstd = false});
  FakeIo io;
  made.put(io, "ckpt");
  Rng rng(1);
  for (const MadeTensor& t : made.tensors)
    for (const MadeChunk& c : t.chunks)
      if (c.length > 0) flip(io, "ckpt/" + MadeCheckpoint::file_name(c.file), c.at + rng() % c.length, rng() % 8);
  const std::string one = texts(Verified(io).findings);
  CHECK_FALSE(one.empty());
  for (const unsigned workers : {2u, 3u, 7u}) CHECK(texts(Verified(io, {.workers = workers}).findings) == one);
}

TEST_CASE("a sample has at least its share of the bytes, is always the same, and leaves small records in") {
  MadeCheckpoint made;
  for (int i = 0; i < 200; ++i) made.tensors.push_back({"t" + std::to_string(i), DType::uint8, {50 + i}, {whole_chunk({50 + i})}});
  FakeIo io;
  made.put(io, "ckpt");
  const Verified all(io), quick(io, {.data = false}), some(io, {.sample_percent = 10}), again(io, {.sample_percent = 10, .workers = 3});
  CHECK(all.plan.left_out_records == 0);
  CHECK(quick.plan.left_out_records == 200);
  CHECK(quick.plan.left_out_bytes == all.plan.data_bytes);
  CHECK(quick.plan.plan.bytes_to_read == 0);
  CHECK(quick.resolved.records_checked == all.resolved.records_checked);
  const uint64_t kept = some.plan.data_bytes - some.plan.left_out_bytes;
  CHECK(kept * 10 >= some.plan.data_bytes);
  CHECK(kept * 10 < some.plan.data_bytes * 12);
  REQUIRE(some.plan.plan.records.size() == again.plan.plan.records.size());
  for (size_t i = 0; i < some.plan.plan.records.size(); ++i) CHECK(some.plan.plan.records[i].offset == again.plan.plan.records[i].offset);
  CHECK(some.executed.records_checked == 200 - some.plan.left_out_records);
}

TEST_CASE("many small items are read together") {
  MadeCheckpoint made;
  for (int i = 0; i < 5000; ++i) made.tensors.push_back({"t" + std::to_string(i), DType::uint8, {16}, {whole_chunk({16})}});
  FakeIo io;
  made.put(io, "ckpt");
  const uint64_t before = io.calls(dcp::test::Op::kRead);
  const Verified v(io);
  CHECK(v.findings.empty());
  CHECK(v.compared() == 20'000);
  CHECK(io.calls(dcp::test::Op::kRead) - before < 200);
}

TEST_CASE("objects without bytes of their own have no digest") {
  Made m;
  m.dict().key("w").floats(2, "0").key("n").number(3).end_dict();
  FakeIo io;
  put(io, m.done(), {{"data/0", kEight}});
  const Verified v(io, {.digests = true}, "m.pt");
  CHECK(v.findings.empty());
  CHECK(v.digests.size() == 1);
  CHECK(v.digests.contains("w"));
  REQUIRE(v.plan.not_digested.size() == 1);
  CHECK(v.plan.not_digested[0].key == "n");
}
