#include "base/sums.h"

#include <zlib.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <vector>

#include "base/crc_fold.h"

namespace dcp {
namespace {

std::vector<std::byte> random_bytes(std::mt19937_64& random, size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

uint64_t crc64(Bytes bytes) { return crc64_finish(crc64_raw(bytes), bytes.size()); }

TEST_CASE("check values of the two catalogued CRCs") {
  CHECK(crc32(as_bytes("123456789")) == 0xCBF43926u);
  CHECK(crc64(as_bytes("123456789")) == 0x995DC9BBDF1939FAu);
  CHECK(crc32({}) == 0);
  CHECK(crc64({}) == 0);
}

TEST_CASE("every length agrees with zlib and with the table-driven CRC, at any alignment") {
  std::mt19937_64 random(7);
  const std::vector<std::byte> bytes = random_bytes(random, 5000);
  for (size_t size = 0; size < 4990; size += size < 300 ? 1 : 131) {
    const Bytes run = Bytes(bytes).subspan(size % 9, size);
    REQUIRE(crc32(run) == ::crc32_z(0, reinterpret_cast<const unsigned char*>(run.data()), run.size()));
    REQUIRE(crc32_raw(run) == Crc32Field::raw(run));
    REQUIRE(crc64_raw(run) == Crc64Field::raw(run));
  }
}

TEST_CASE("every fold of this processor leaves bytes with the same CRC") {
  std::mt19937_64 random(11);
  const std::vector<std::byte> bytes = random_bytes(random, 3000);
  constexpr FoldKeys kKeys32 = fold_keys<Crc32Field>(), kKeys64 = fold_keys<Crc64Field>();
  for (const NamedFold& f : all_folds()) {
    if (!f.runs_here) continue;
    INFO(f.name);
    for (size_t size = 0; size < 2990; ++size) {
      const Bytes run = Bytes(bytes).subspan(size % 9, size);
      std::byte out[kFolded];
      const auto joined = [&](auto field, const FoldKeys& keys) {
        using Field = decltype(field);
        const size_t done = f.fold(keys, run, out);
        REQUIRE(done <= size);
        return done == 0 ? Field::raw(run) : Field::raw(run.subspan(done), Field::raw(out));
      };
      REQUIRE(joined(Crc32Field(), kKeys32) == Crc32Field::raw(run));
      REQUIRE(joined(Crc64Field(), kKeys64) == Crc64Field::raw(run));
    }
  }
}

TEST_CASE("a shift is what zero bytes do") {
  std::mt19937_64 random(8);
  const std::vector<std::byte> head = random_bytes(random, 33);
  for (const size_t zeros : {0u, 1u, 7u, 255u, 256u, 257u, 65536u, 70000u}) {
    std::vector<std::byte> padded = head;
    padded.resize(head.size() + zeros);
    REQUIRE(crc32_shift(crc32_raw(head), zeros) == crc32_raw(padded));
    REQUIRE(crc64_shift(crc64_raw(head), zeros) == crc64_raw(padded));
  }
}

TEST_CASE("shifts add up, also beyond any file's length") {
  std::mt19937_64 random(9);
  for (int i = 0; i < 200; ++i) {
    const uint64_t a = random() >> (random() % 63 + 1);
    const uint64_t b = random() >> (random() % 63 + 1);
    const uint64_t raw = random();
    REQUIRE(crc32_shift(crc32_shift(static_cast<uint32_t>(raw), a), b) == crc32_shift(static_cast<uint32_t>(raw), a + b));
    REQUIRE(crc64_shift(crc64_shift(raw, a), b) == crc64_shift(raw, a + b));
  }
}

TEST_CASE("pieces join in any order") {
  std::random_device device;
  const uint64_t seed = device();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    const std::vector<std::byte> bytes = random_bytes(random, random() % 4000);
    std::vector<size_t> cuts = {0, bytes.size()};
    for (uint64_t i = random() % 12; i > 0; --i) cuts.push_back(random() % (bytes.size() + 1));
    std::sort(cuts.begin(), cuts.end());
    std::vector<size_t> pieces(cuts.size() - 1);
    for (size_t i = 0; i < pieces.size(); ++i) pieces[i] = i;
    std::shuffle(pieces.begin(), pieces.end(), random);

    Crc32Sum sum;
    Crc64Sum sum64;
    uint64_t raw64 = 0;
    for (const size_t i : pieces) {
      const Bytes piece = Bytes(bytes).subspan(cuts[i], cuts[i + 1] - cuts[i]);
      const uint64_t after = bytes.size() - cuts[i + 1];
      sum.add(crc32_raw(piece), piece.size(), after);
      sum64.add(crc64_raw(piece), piece.size(), after);
      raw64 ^= crc64_shift(crc64_raw(piece), after);
    }
    REQUIRE(sum.added() == bytes.size());
    REQUIRE(sum.value(bytes.size()) == crc32(bytes));
    REQUIRE(crc64_finish(raw64, bytes.size()) == crc64(bytes));
    REQUIRE(sum64.added() == bytes.size());
    REQUIRE(sum64.value(bytes.size()) == crc64(bytes));
  }
}

}  // namespace
}  // namespace dcp
