// What a planned .pt file says: its pickle, its records, and what does not fit in.
#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/made_blobs.h"
#include "pickle/graph.h"
#include "plan/opened.h"

using namespace dcp;
using namespace dcp::test;

namespace {

constexpr ReprCaps kAll{.depth = 50, .length = 100000, .text = 1000};

MadeBlob with_path(MadeBlob blob, std::vector<std::string> path) {
  blob.path = std::move(path);
  return blob;
}

Plan torch_plan(MadeCheckpoint made, const LayoutOptions& options = {}, const SelectOptions& select = {}) {
  FakeIo io;
  made.put(io, "ckpt");
  return Opened(io, "ckpt", select).torch(options);
}
std::string pickle_of(const Plan& plan) {
  const PickleGraph graph(as_bytes(plan.literals.at(0).bytes), {}, Limits{});
  return graph.repr(graph.root(), kAll);
}

}  // namespace

TEST_CASE("the pickle nests the paths, and storages are numbered in its order") {
  Rng rng(1);
  const Plan plan = torch_plan(checkpoint_of(
      {whole_tensor("model.w", DType::float32, {2, 3}, {"model", "w"}), whole_tensor("l.2", DType::uint16, {2, 1, 3, 4}, {"l", "#2"}),
       whole_tensor("model.s", DType::bfloat16, {}, {"model", "s"})},
      {with_path(number_blob("step", 7), {"l", "#0"}), nested_blob(rng, "opt", {2})}));
  const std::string rest = ", False, collections.OrderedDict()";
  CHECK(pickle_of(plan) ==
        "{'model': {'w': torch._utils._rebuild_tensor_v2(persistent ('storage', torch.FloatStorage, '0', 'cpu', 6), 0, (2, 3), (3, 1)" +
            rest + "), 's': torch._utils._rebuild_tensor_v2(persistent ('storage', torch.BFloat16Storage, '1', 'cpu', 1), 0, (), ()" +
            rest +
            ")}, 'l': [7, None, torch._utils._rebuild_tensor_v3(persistent ('storage', torch.storage.UntypedStorage, '2', 'cpu', 48), 0, "
            "(2, 1, 3, 4), (12, 12, 4, 1)" +
            rest +
            ", torch.uint16)], 'opt': {'lr': 0.5, 'moments': [torch._utils._rebuild_tensor_v2("
            "persistent ('storage', torch.FloatStorage, '3', 'cpu', 2), 0, (2,), (1,)" +
            rest + ")]}}");
}

TEST_CASE("records lie one behind the other, each payload at a multiple of 64") {
  const Plan plan = torch_plan(
      checkpoint_of({whole_tensor("a", DType::uint8, {100}), whole_tensor("b", DType::uint8, {0}), whole_tensor("c", DType::int64, {3})}));
  REQUIRE(plan.files.size() == 1);
  const OutputFile& file = plan.files[0];
  REQUIRE(file.archive.has_value());
  REQUIRE(file.archive->record_count() == 6);
  REQUIRE(file.payloads.size() == 6);
  CHECK_FALSE(plan.folder);
  uint64_t end = 0;
  for (uint64_t r = 0; r < 6; ++r) {
    CHECK(file.archive->payload(r) % 64 == 0);
    CHECK(file.archive->payload(r) > end);
    end = file.archive->payload(r) + file.archive->payload_bytes(r);
    if (file.payloads[r].kind == ArchivePayload::Kind::kLiteral) {
      CHECK(plan.literals[file.payloads[r].index].file_offset == file.archive->payload(r));
      CHECK(plan.literals[file.payloads[r].index].bytes.size() == file.archive->payload_bytes(r));
    } else {
      CHECK(plan.regions[file.payloads[r].index].file_offset == file.archive->payload(r));
    }
  }
  CHECK(plan.literals[1].bytes == "little");
  CHECK(plan.literals[2].bytes == "3\n");
  CHECK(file.archive->payload_bytes(2) == 100);
  CHECK(file.archive->payload_bytes(3) == 0);
  CHECK(file.bytes == file.archive->total_bytes());
  CHECK(plan.bytes_to_write == file.bytes);
  CHECK(plan.tensor_bytes == 124);
  CHECK(plan.largest_tensor == 100);
}

TEST_CASE("strides of tensors with a dim of size zero are torch's") {
  CHECK(pickle_of(torch_plan(checkpoint_of({whole_tensor("e", DType::float32, {2, 0, 3})})))
            .find("'0', 'cpu', 0), 0, (2, 0, 3), (3, 3, 1)") != std::string::npos);
}

TEST_CASE("thousands of entries, in dicts and in lists with holes") {
  std::vector<MadeBlob> blobs;
  std::string dict = "'d': {", list = "'l': [";
  for (int64_t i = 0; i < 2001; ++i) {
    blobs.push_back(with_path(number_blob("d" + std::to_string(i), i), {"d", "k" + std::to_string(i)}));
    dict += (i ? ", 'k" : "'k") + std::to_string(i) + "': " + std::to_string(i);
  }
  for (int64_t i = 2500; i >= 0; i -= 2)
    blobs.push_back(with_path(number_blob("l" + std::to_string(i), i), {"l", "#" + std::to_string(i)}));
  for (int64_t i = 0; i <= 2500; ++i) list += (i ? ", " : "") + (i % 2 ? "None" : std::to_string(i));
  CHECK((pickle_of(torch_plan(checkpoint_of({}, std::move(blobs)))) == "{" + dict + "}, " + list + "]}"));
}

TEST_CASE("an opaque tensor is spliced in, if it is whole") {
  Rng rng(2);
  MadeTensor q{.key = "q", .dtype = DType::qint8, .dims = {9}, .chunks = {quantized_chunk(rng, 9)}};
  const Plan plan = torch_plan(checkpoint_of({q, whole_tensor("w", DType::float32, {2})}));
  CHECK(pickle_of(plan).starts_with("{'q': torch._utils._rebuild_qtensor(persistent ('storage', torch.QInt8Storage, '0', 'cpu', 9)"));
  CHECK(plan.copies.size() == 1);
  CHECK(plan.regions.size() == 1);
  q.dims = {18};
  q.chunks.push_back(quantized_chunk(rng, 9));
  q.chunks[1].offsets = {9};
  CHECK(error_line([&] { torch_plan(checkpoint_of({q})); }) ==
        "ckpt: tensor 'q': a tensor that is not plain (quantized or a subclass) is cut into several chunks: 2 chunks");
}

TEST_CASE("byte items in big-endian order are refused only if they hold tensors") {
  Rng rng(3);
  MadeBlob tensors = nested_blob(rng, "opt", {3}), number = number_blob("n", 1);
  tensors.big_endian = number.big_endian = true;
  CHECK(pickle_of(torch_plan(checkpoint_of({}, {number}))) == "{'n': 1}");
  CHECK(error_id([&] { torch_plan(checkpoint_of({}, {tensors})); }) == "blob_big_endian");
}

TEST_CASE("a byte item that names a storage which is not there") {
  Rng rng(4);
  MadeBlob blob = nested_blob(rng, "opt", {3});
  blob.storages.clear();
  const std::string said = error_line([&] { torch_plan(checkpoint_of({}, {blob})); });
  CHECK((said.find(" > data/0 @ ") != said.npos && said.ends_with("object 'opt': the item lacks a record")));
}

TEST_CASE("objects that torch.load(weights_only=True) refuses are named, or left out") {
  const MadeCheckpoint made = checkpoint_of({whole_tensor("w", DType::float32, {2})},
                                            {object_blob("a", "my.module", "Thing"), number_blob("n", 1),
                                             object_blob("b", "my.module", "Thing"), object_blob("c", "collections", "OrderedDict")});
  const Plan all = torch_plan(made);
  CHECK(all.unsafe_globals == std::vector<std::string>{"my.module.Thing"});
  REQUIRE(all.unsafe.size() == 2);
  CHECK(all.unsafe[1].key == "b");
  CHECK(all.unsafe[1].text == "my.module.Thing");
  CHECK(all.left_out.empty());
  const Plan safe = torch_plan(made, {.limits = {}, .units = {}, .weights_only_safe = true});
  CHECK(safe.unsafe_globals.empty());
  CHECK(safe.unsafe.empty());
  REQUIRE(safe.left_out.size() == 2);
  CHECK(safe.left_out[0].key == "a");
  CHECK(pickle_of(safe).ends_with("'n': 1, 'c': collections.OrderedDict()}"));
  const MadeCheckpoint one = checkpoint_of({}, {object_blob("a", "my.module", "Thing")});
  CHECK(error_id([&] { torch_plan(one, {.limits = {}, .units = {}, .weights_only_safe = true}); }) == "nothing_selected");
}

TEST_CASE("a stripped root is not in the pickle") {
  const MadeCheckpoint made = checkpoint_of({whole_tensor("app.model.w", DType::float32, {1}, {"app", "model", "w"}),
                                             whole_tensor("app.model.b.0", DType::float32, {1}, {"app", "model", "b", "#0"}),
                                             whole_tensor("optim.w", DType::float32, {1}, {"optim", "w"})});
  const std::string text = pickle_of(torch_plan(made, {}, {.model_only = true}));
  CHECK(text.starts_with("{'w': torch._utils"));
  CHECK(text.find("'b': [torch._utils") != std::string::npos);
  CHECK(text.find("optim") == std::string::npos);
}
