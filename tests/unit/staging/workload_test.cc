// What is staged: built-in models, curves, the part of a checkpoint that a rank has.
#include "staging/workload.h"

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "base/error_line.h"
#include "inputs/open.h"

using namespace dcp;
using namespace dcp::test;

namespace {

uint64_t elements(const Workload& w) {
  uint64_t n = 0;
  for (const FolderTensor& t : w.tensors) n += volume(t.dims);
  return n;
}

}  // namespace

TEST_CASE("models have the parameters that their cards give") {
  const auto parameters = [](std::string_view name) { return elements(model_workload({.name = name, .dtype = DType::bfloat16})); };
  CHECK(parameters("gpt2") == 124439808);
  CHECK(parameters("llama-1b") == 1235814400);
  CHECK(parameters("llama-8b") == 8030261248);
  CHECK(parameters("llama-70b") == 70553706496);
  for (const std::string_view name : model_names()) {
    const Workload w = model_workload({.name = name, .dtype = DType::float32, .optimizer = true});
    std::set<std::string> keys;
    for (const FolderTensor& t : w.tensors) keys.insert(t.key);
    CHECK(keys.size() == w.tensors.size());
    CHECK(w.name == std::string(name) + " with AdamW");
  }
  CHECK(error_line([] { model_workload({.name = "llama"}); }).find("llama-8b") != std::string::npos);
}

TEST_CASE("AdamW is two float32 moments and a step beside each weight") {
  const Workload bare = model_workload({.name = "tiny", .dtype = DType::bfloat16});
  const Workload full = model_workload({.name = "tiny", .dtype = DType::bfloat16, .optimizer = true});
  CHECK(full.tensors.size() == 4 * bare.tensors.size());
  CHECK(full.bytes() == bare.bytes() + 2 * 2 * bare.bytes() + 4 * bare.tensors.size());
}

TEST_CASE("the ranks' parts make the whole") {
  const Workload whole = model_workload({.name = "tiny", .dtype = DType::float32});
  uint64_t sum = 0;
  for (uint32_t r = 0; r < 7; ++r) sum += elements(model_workload({.name = "tiny", .dtype = DType::float32, .world_size = 7, .rank = r}));
  CHECK(sum == elements(whole));
  CHECK(error_id([] { model_workload({.name = "tiny", .world_size = 2, .rank = 2}); }) == "usage");
}

TEST_CASE("a curve grows by fours and ends where it is told") {
  const auto sizes = [](uint64_t first, uint64_t last) {
    std::vector<uint64_t> bytes;
    for (const Workload& w : size_curve(first, last)) bytes.push_back(w.bytes());
    return bytes;
  };
  CHECK((sizes(1024, 16384) == std::vector<uint64_t>{1024, 4096, 16384}));
  CHECK((sizes(1000, 5000) == std::vector<uint64_t>{1000, 4000, 5000}));
  CHECK((sizes(64, 64) == std::vector<uint64_t>{64}));
}

TEST_CASE("tensors begin at multiples of the alignment") {
  CHECK((offsets_of(many_of(3, 100).tensors, 64) == std::vector<uint64_t>{0, 128, 256, 384}));
  CHECK((offsets_of({}, 64) == std::vector<uint64_t>{0}));
}

TEST_CASE("a checkpoint, whole and the part of a rank") {
  const auto io = make_posix_io();
  const Catalog catalog = read_checkpoint(*io, DCPCTL_TEST_DATA "/fsdp2_ws4/ckpt", {}).catalog;
  const Workload whole = checkpoint_workload(catalog, std::nullopt);
  uint64_t bytes = 0, parts = 0;
  for (const Tensor& t : catalog.tensors) bytes += catalog.tensor_bytes(t);
  CHECK(whole.bytes() == bytes);
  // AdamW's steps are no tensor's shards: rank 0 has them.
  for (uint32_t r = 0; r < 4; ++r) parts += checkpoint_workload(catalog, r).bytes();
  CHECK(parts == bytes);
  CHECK(error_id([&] { checkpoint_workload(catalog, 4); }) == "nothing_selected");
}
