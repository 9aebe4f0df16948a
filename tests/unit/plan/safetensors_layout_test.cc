// What planned safetensors files say: headers, shards, index, and what the format has no room for.
#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/made_blobs.h"
#include "format/safetensors.h"
#include "plan/opened.h"

using namespace dcp;
using namespace dcp::test;

namespace {

Plan safetensors_plan(MadeCheckpoint made, uint64_t max_shard_bytes = 0, const SelectOptions& select = {}) {
  FakeIo io;
  made.put(io, "ckpt");
  return Opened(io, "ckpt", select).safetensors({.limits = {}, .units = {}, .max_shard_bytes = max_shard_bytes});
}
std::string refusal(const MadeCheckpoint& made) {
  return error_line([&] { safetensors_plan(made); });
}

// The names in a file, in order, checked against the regions of the plan.
std::vector<std::string> names_in(const Plan& plan, uint32_t file) {
  const SafetensorsHeader header = read_safetensors_header(as_bytes(plan.literals.at(file).bytes), plan.files.at(file).bytes, {}, Limits{});
  CHECK(header.metadata == std::map<std::string, std::string>{{"format", "pt"}});
  std::vector<uint64_t> offsets;
  for (const Region& r : plan.regions)
    if (r.file == file) offsets.push_back(r.file_offset);
  std::vector<std::string> names;
  for (const SafetensorsEntry& e : header.entries) {
    names.push_back(e.name);
    CHECK(offsets.at(names.size() - 1) == e.offset);
  }
  CHECK(offsets.size() == names.size());
  return names;
}
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("one file: larger dtypes first, then by name") {
  const Plan plan = safetensors_plan(
      checkpoint_of({whole_tensor("b", DType::uint8, {3}), whole_tensor("a", DType::uint8, {5}), whole_tensor("z", DType::float64, {2}),
                     whole_tensor("e", DType::float32, {0, 4}), whole_tensor("s", DType::float32, {})}));
  CHECK(names_in(plan, 0) == Names{"z", "e", "s", "a", "b"});
  CHECK(plan.files.size() == 1);
  CHECK(plan.files[0].name.empty());
  CHECK_FALSE(plan.folder);
  CHECK(plan.tensor_bytes == 16 + 4 + 8);
  CHECK(plan.bytes_to_write == plan.literals[0].bytes.size() + plan.tensor_bytes);
  CHECK(plan.files[0].bytes == plan.bytes_to_write);
  CHECK(plan.largest_tensor == 16);
}

TEST_CASE("sizes, order and shards follow the dtypes of the output") {
  const std::vector<MadeTensor> tensors{whole_tensor("a", DType::float32, {10}), whole_tensor("b", DType::float32, {10}),
                                        whole_tensor("c", DType::float64, {10})};
  const SelectOptions select{.dtypes = {.dtype = DType::bfloat16, .rules = {{"b", std::nullopt}}}};
  const Plan plan = safetensors_plan(checkpoint_of(tensors), 0, select);
  CHECK(names_in(plan, 0) == Names{"b", "a", "c"});
  CHECK(plan.tensor_bytes == 40 + 20 + 20);
  CHECK(plan.largest_tensor == 40);
  CHECK(plan.files[0].bytes == plan.literals[0].bytes.size() + plan.tensor_bytes);
  CHECK(safetensors_plan(checkpoint_of(tensors), 60, select).files.size() == 3);  // a and b, c, the index
}

TEST_CASE("what is more than its elements has no place in safetensors, cast or not") {
  Rng rng(1);
  const MadeCheckpoint made = checkpoint_of({{.key = "q", .dtype = DType::float32, .dims = {4}, .chunks = {quantized_chunk(rng, 4)}}});
  CHECK(error_line([&] { safetensors_plan(made, 0, {.dtypes = {.dtype = DType::bfloat16, .rules = {}}}); }) ==
        "ckpt: safetensors cannot represent some tensors: q (float32, in a class of its own)");
}

TEST_CASE("shards are filled in the metadata's order, and an index names them") {
  const Plan plan = safetensors_plan(
      checkpoint_of({whole_tensor("a", DType::uint8, {60}), whole_tensor("b", DType::uint8, {40}), whole_tensor("c", DType::uint8, {1}),
                     whole_tensor("d", DType::uint8, {300}), whole_tensor("e", DType::uint8, {0}), whole_tensor("f", DType::uint8, {100})}),
      100);
  REQUIRE(plan.files.size() == 5);
  CHECK(plan.folder);
  CHECK(names_in(plan, 0) == Names{"a", "b"});
  CHECK(names_in(plan, 1) == Names{"c"});
  CHECK(names_in(plan, 2) == Names{"d"});
  CHECK(names_in(plan, 3) == Names{"e", "f"});
  CHECK(plan.files[0].name == "model-00001-of-00004.safetensors");
  CHECK(plan.files[3].name == "model-00004-of-00004.safetensors");
  CHECK(plan.files[4].name == "model.safetensors.index.json");  // last: it says that the folder is complete
  const std::string& index = plan.literals.at(4).bytes;
  CHECK(plan.files[4].bytes == index.size());
  CHECK(index.find("\"total_size\": 501") != std::string::npos);
  CHECK(index.find("\"d\": \"model-00003-of-00004.safetensors\"") != std::string::npos);
  CHECK(index.find("\"e\": \"model-00004-of-00004.safetensors\"") != std::string::npos);
  uint64_t bytes = 0;
  for (const OutputFile& f : plan.files) bytes += f.bytes;
  CHECK(plan.bytes_to_write == bytes);
}

TEST_CASE("one shard is a folder too") {
  const Plan plan = safetensors_plan(checkpoint_of({whole_tensor("a", DType::uint8, {6})}), 1000);
  REQUIRE(plan.files.size() == 2);
  CHECK(plan.files[0].name == "model-00001-of-00001.safetensors");
}

TEST_CASE("byte items are left out and counted") {
  const Plan plan = safetensors_plan(checkpoint_of({whole_tensor("w", DType::float32, {2})}, {number_blob("a", 1), number_blob("b", 2)}));
  CHECK(names_in(plan, 0) == Names{"w"});
  CHECK(plan.left_out_blobs == 2);
  CHECK(error_line([&] { safetensors_plan(checkpoint_of({}, {number_blob("a", 1)})); }).ends_with(": no tensor"));
}

TEST_CASE("tensors without a form are all named") {
  Rng rng(1);
  CHECK(refusal(checkpoint_of({whole_tensor("w", DType::float32, {2}),
                               whole_tensor("c", DType::complex128, {2}),
                               {.key = "q", .dtype = DType::qint8, .dims = {4}, .chunks = {quantized_chunk(rng, 4)}}})) ==
        "ckpt: safetensors cannot represent some tensors: c (complex128), q (qint8)");
  // A plain dtype in the metadata and an item that is not plain.
  CHECK(refusal(checkpoint_of({{.key = "q", .dtype = DType::float32, .dims = {4}, .chunks = {quantized_chunk(rng, 4)}}})) ==
        "ckpt: safetensors cannot represent some tensors: q (float32, in a class of its own)");
  std::vector<MadeTensor> many;
  for (int i = 0; i < 23; ++i) many.push_back(whole_tensor("t" + std::to_string(i), DType::complex128, {1}));
  CHECK(refusal(checkpoint_of(many)).ends_with("t19 (complex128) and 3 more"));
}

TEST_CASE("names that a stripped root makes equal") {
  // Flat names are joined with dots, so different paths can spell one name.
  const MadeCheckpoint made = checkpoint_of(
      {whole_tensor("1", DType::float32, {1}, {"model", "a.b"}), whole_tensor("2", DType::float32, {1}, {"model", "a", "b"})});
  CHECK(error_line([&] { safetensors_plan(made, 0, {.root = "model"}); }) ==
        "ckpt: tensor '2': two keys have the same name in the output: 'a.b', which is also the name of '1'");
  CHECK(names_in(safetensors_plan(made), 0) == Names{"1", "2"});
}
