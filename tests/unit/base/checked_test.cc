#include "base/checked.h"

#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "base/error_line.h"

namespace dcp {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

static_assert(checked_add<uint64_t>(kMax, 0) == kMax);
static_assert(!checked_add<uint64_t>(kMax, 1));
static_assert(!checked_mul<int64_t>(std::numeric_limits<int64_t>::min(), -1));
static_assert(narrow<uint8_t>(255) == 255);

TEST_CASE("sums and products of file numbers name the place when they overflow") {
  const Place place{.path = "ckpt/.metadata"};
  CHECK(add_or_fail(kMax - 1, 1, place) == kMax);
  CHECK(mul_or_fail(kMax, 1, place) == kMax);
  CHECK(test::error_line([&] { add_or_fail(kMax, 1, place); }) == "ckpt/.metadata: a size overflows 64 bits: 18446744073709551615 + 1");
  CHECK(test::error_line([&] { mul_or_fail(uint64_t{1} << 32, uint64_t{1} << 32, place); }) ==
        "ckpt/.metadata: a size overflows 64 bits: 4294967296 * 4294967296");
}

TEST_CASE("narrowing never loses a bit") {
  CHECK(narrow<int32_t>(uint64_t{7}) == 7);
  CHECK(test::error_id([] { narrow<int32_t>(uint64_t{1} << 31); }) == "internal");
  CHECK(test::error_id([] { narrow<uint64_t>(-1); }) == "internal");
}

}  // namespace
}  // namespace dcp
