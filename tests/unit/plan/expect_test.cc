// --expect: lists that are read, and differences that are found.
#include "plan/expect.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/made_blobs.h"
#include "plan/opened.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

Lines lines_of(const std::vector<Signature>& all) {
  Lines lines;
  for (const Signature& s : all) {
    std::string line = s.key + "|" + s.dtype + "|";
    for (int64_t d : s.shape) line += std::to_string(d) + " ";
    lines.push_back(line);
  }
  return lines;
}
Lines parsed(std::string_view text) { return lines_of(parse_signatures(text, "list")); }
Lines compared(std::string_view got, std::string_view expected, CompareDtypes dtypes = CompareDtypes::kNo) {
  constexpr std::string_view kKinds[] = {"missing", "unexpected", "shape", "dtype"};
  Lines lines;
  for (const Difference& d : differences(parse_signatures(got, ""), parse_signatures(expected, ""), dtypes))
    lines.push_back(std::string(kKinds[static_cast<size_t>(d.kind)]) + " " + d.key + " " + d.got + "/" + d.expected);
  return lines;
}

}  // namespace

TEST_CASE("a line is a key, a dtype, a shape, and what inspect prints behind it") {
  CHECK(parsed("model.weight float32 [2, 3]") == Lines{"model.weight|float32|2 3 "});
  CHECK(parsed("w  bfloat16  [128,64]    16.0 KiB  Shard(0) x4 uneven\n") == Lines{"w|bfloat16|128 64 "});
  CHECK(parsed("\tscalar\tint64\t[]\t8 B\twhole\r\n\n# no tensor [1]\n") == Lines{"scalar|int64|"});
  CHECK(parsed("step  object   1.2 KiB\nstep object\n").empty());
  CHECK(parsed("a key with blanks [0] float32 [ 7 ]") == Lines{"a key with blanks [0]|float32|7 "});
  CHECK(parsed("an object of mine float32 [1]") == Lines{"an object of mine|float32|1 "});
  CHECK(parsed("").empty());
}

TEST_CASE("lines that say nothing are refused with their number") {
  const auto refused = [](std::string_view text) { return error_line([&] { parse_signatures(text, "list"); }); };
  CHECK(refused("w float32 [1]\nw float32") ==
        "list: a line of the list does not describe a tensor (got line 2: w float32, expected key dtype [2, 3])");
  CHECK(refused("[2, 3]").starts_with("list: a line"));
  CHECK(refused("w [2, 3]").starts_with("list: a line"));
  CHECK(refused("w float32 [2; 3]").starts_with("list: a line"));
  CHECK(refused("w float32 [-1]").starts_with("list: a line"));
  CHECK(refused("w float32 [99999999999999999999]").starts_with("list: a line"));
  CHECK(refused("objection").starts_with("list: a line"));
  CHECK(refused("object").starts_with("list: a line"));
}

TEST_CASE("what is missing, unexpected, of another shape or dtype") {
  const std::string got = "b float32 [2]\na float32 [1]\nd int8 []", expected = "a float16 [1]\nb float32 [3]\nc float32 [4]";
  CHECK(compared(got, got).empty());
  CHECK(compared(got, expected) == Lines{"missing c /[4]", "unexpected d []/", "shape b [2]/[3]"});
  CHECK(compared(got, expected, CompareDtypes::kYes) ==
        Lines{"missing c /[4]", "unexpected d []/", "shape b [2]/[3]", "dtype a float32/float16"});
  CHECK(compared("", "a float32 [1]") == Lines{"missing a /[1]"});
  CHECK(compared("a float32 [1]", "") == Lines{"unexpected a [1]/"});
}

TEST_CASE("the signatures of a plan are its output's: final names, tensors only") {
  MadeCheckpoint made;
  made.tensors = {{.key = "model.w", .dtype = DType::bfloat16, .dims = {2, 3}, .chunks = {whole_chunk({2, 3})}, .path = {"model", "w"}},
                  {.key = "model.a\nb", .dtype = DType::int8, .dims = {}, .chunks = {whole_chunk({})}, .path = {"model", "a\nb"}}};
  made.blobs = {number_blob("step", 3)};
  FakeIo io;
  made.put(io, "ckpt");
  const Opened all(io);
  CHECK(lines_of(signatures_of(all.catalog)) == Lines{"model.w|bfloat16|2 3 ", "model.a\\x0ab|int8|"});
  const Opened model(io, "ckpt", {.model_only = true});
  CHECK(lines_of(signatures_of(model.catalog, model.selection, model.torch())) == Lines{"w|bfloat16|2 3 ", "a\\x0ab|int8|"});
}
