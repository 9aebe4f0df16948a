// Checkpoints of torch_checkpointing: what metadata.pkl names, what it leaves to the names of files, and what is left out.
#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/data_files.h"
#include "catalog/placements.h"
#include "catalog/structure.h"
#include "inputs/made_ranks.h"
#include "items/values.h"

using namespace dcp;
using namespace dcp::test;

namespace {

using Texts = std::vector<std::string>;

struct MadeItem {
  std::string name;
  std::vector<std::pair<std::string, std::string>> files;  // of each rank: path and form; "": None
};

std::string metadata(const std::vector<MadeItem>& items, int64_t world, const std::string& version = "2.0") {
  Made m;
  m.dict().key("metadata").dict();
  for (const MadeItem& item : items) {
    m.key(item.name).dict().key("rank_to_layout_info").dict();
    for (size_t r = 0; r < item.files.size(); ++r) {
      m.number(static_cast<int64_t>(r));
      const auto& [path, form] = item.files[r];
      if (path.empty()) m.op(POp::NONE);
      else m.dict().key("file_path").key(path).key("serialization_format").dict().key("type").key(form).end_dict().end_dict();
    }
    m.end_dict().end_dict();
  }
  m.end_dict().key("world_size").number(world).key("version").key(version).end_dict();
  return m.done();
}

Texts listed(const Catalog& c) {
  Texts keys;
  for (const Tensor& t : c.tensors) keys.push_back(std::string(c.key(t)) + "=t");
  for (const Blob& b : c.blobs) keys.emplace_back(c.key(b));
  return keys;
}

}  // namespace

TEST_CASE("items that the metadata names, and those that only have files") {
  FakeIo io;
  io.put("ckpt/metadata.pkl", metadata({{"model", {{"", ""}, {"deep/one.pt", "TorchSerialization"}}}}, 2));
  put_part(io, "ckpt/model_0.pt", {6, 3, {0}});
  put_part(io, "ckpt/deep/one.pt", {6, 3, {1}});
  put_object(io, "ckpt/train_0.pt", 5);
  put_object(io, "ckpt/train_1.pt", 5);
  put_object(io, "ckpt/late_2.pt", 5);  // of no rank
  for (const char* path : {"ckpt", "ckpt/metadata.pkl"}) {
    const FrozenCatalog opened = open_checkpoint(io, path, {});
    const auto findings = structure_findings(*opened);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].id == ProblemId::hf_file_ignored);
    CHECK(findings[0].got == "late_2.pt");
    CHECK(opened->catalog.kind == CheckpointKind::kTorchCheckpointing);
    CHECK(listed(opened->catalog) == Texts{"model.w=t", "train.n"});
    CHECK(opened->catalog.tensors[0].chunk_count == 2);
  }
}

TEST_CASE("stages of two ranks are of the world that the metadata says") {
  FakeIo io;
  io.put("ckpt/metadata.pkl", metadata({{"model", {{"", ""}, {"", ""}, {"", ""}, {"", ""}}}}, 4));
  for (int64_t r = 0; r < 4; ++r) put_part(io, "ckpt/model_" + std::to_string(r) + ".pt", {6, 3, {r % 2}}, r < 2 ? "a" : "b");
  CHECK(world_size_shown(read_checkpoint(io, "ckpt", {}).catalog) == 4);
}

TEST_CASE("items in JSON, and as bytes") {
  FakeIo io;
  io.put("ckpt/metadata.pkl",
         metadata({{"model", {{"", ""}, {"", ""}}}, {"config", {{"a.json", "JsonSerialization"}, {"b.json", "JsonSerialization"}}}}, 2));
  for (const int64_t rank : {0, 1}) put_part(io, "ckpt/model_" + std::to_string(rank) + ".pt", {6, 3, {rank}});
  for (const char* name : {"a", "b"})
    io.put(std::string("ckpt/") + name + ".json", R"({"dim": 6, "deep": {"list": [1, 2.5, null, "x"], "empty": {}}})");
  io.put("ckpt/state_0.json", R"({"seed": 1})");
  io.put("ckpt/state_1.json", R"({"seed": 2})");
  io.put("ckpt/tokenizer_0.bin", std::string("\0ra\xff", 4));
  io.put("ckpt/one_1.json", "7");
  const FrozenCatalog opened = open_checkpoint(io, "ckpt", {});
  const Catalog& c = opened->catalog;
  const std::vector<Problem> findings = structure_findings(*opened);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].id == ProblemId::ranks_own_objects);
  CHECK(findings[0].got == "state.rank_0 and 1 more");
  CHECK(listed(c) == Texts{"model.w=t", "config.dim", "config.deep.list", "config.deep.empty", "one", "state.rank_0.seed",
                           "state.rank_1.seed", "tokenizer"});
  DataFiles files(io, c, FollowLinks::kAll);
  std::map<std::string, std::string> values;
  std::vector<KeyRef> keys;
  for (BlobId b = 0; b < c.blobs.size(); ++b) keys.push_back(KeyRef::blob_at(b));
  for (const auto& [key, text] : small_values(files, c, Limits(), with_small_values(c, keys, keys.size())))
    values.emplace(c.key(key), text);
  CHECK(values.at("config.dim") == "6");
  CHECK(values.at("config.deep.list") == "[1, 2.5, None, 'x']");
  CHECK(values.at("one") == "7");
  CHECK(values.at("state.rank_1.seed") == "2");
}

TEST_CASE("a layout of version 1.0, in the metadata alone") {
  FakeIo io;
  Made m;
  const auto numbers = [&](std::string_view key, const std::vector<int64_t>& list) { write_tuple(m.key(std::string(key)), list); };
  m.dict().key("metadata").dict().key(R"(["model","w"])").list().dict().key("ranks");
  write_tuple(m, {0, 1}).key("sharding_metadata").dict().key("type").key("DTensorShardingMetadata").key("data").dict();
  numbers("global_shape", {3, 4});
  m.key("dtype").key("torch.float32").key("mesh_spec").dict();
  numbers("mesh_shape", {2});
  numbers("mesh_data", {1, 0});
  m.end_dict().key("placements").list().dict().key("type").key("Shard").key("dim").number(0).end_dict().end_list();
  m.end_dict().end_dict().end_dict().end_list().end_dict();
  m.key("rank_to_layout_info_mappings").dict();
  for (const int64_t rank : {0, 1}) m.number(rank).dict().end_dict();
  io.put("ckpt/metadata.pkl", m.end_dict().key("world_size").number(2).end_dict().done());
  for (const int64_t rank : {0, 1}) {
    Made state;
    const int64_t rows = rank == 0 ? 1 : 2;  // rank 1 is the mesh's first
    state.dict().key("w").tensor({.dtype = DType::float32,
                                  .storage = "0",
                                  .storage_elements = static_cast<uint64_t>(rows * 4),
                                  .sizes = {rows, 4},
                                  .strides = {4, 1}});
    put_file(io, "ckpt/model_" + std::to_string(rank) + ".pt", state.end_dict(), std::string(static_cast<size_t>(rows) * 16, 'x'));
  }
  const FrozenCatalog opened = open_checkpoint(io, "ckpt", {});
  const Catalog& c = opened->catalog;
  CHECK(structure_findings(*opened).empty());
  REQUIRE(c.tensors.size() == 1);
  REQUIRE(c.tensors[0].chunk_count == 2);
  CHECK(c.file_name(c.items[c.item_of(c.tensors[0], 0)].file) == "model_1.pt");
  CHECK(c.box(c.tensors[0], 1).offsets[0] == 2);
}

TEST_CASE("metadata that cannot be used") {
  const auto said = [](const std::string& pickle) {
    FakeIo io;
    io.put("ckpt/metadata.pkl", pickle);
    return error_line([&] { read_checkpoint(io, "ckpt", {}); });
  };
  const std::string is_not = "ckpt/metadata.pkl: is not a checkpoint (got ",
                    expected = ", expected metadata of torch_checkpointing, version 2.0)";
  const MadeItem model{"model", {{"", ""}}};
  Made list;
  CHECK(said(list.list().number(1).end_list().done()) == is_not + "a pickle of something else" + expected);
  CHECK(said(metadata({model}, 1, "3.0")) == is_not + "version 3.0 of torch_checkpointing's metadata" + expected);
  CHECK(said(metadata({model}, 2)) == is_not + "no file of rank 1 for model" + expected);
  CHECK(said(metadata({{"model", {{"", ""}, {"", ""}}}}, 1)) == is_not + "rank 1" + expected);
  CHECK(said(metadata({model}, 0)).starts_with(is_not));
  CHECK(said(metadata({model}, int64_t{1} << 40)).starts_with(is_not));
  CHECK(said(metadata({model}, 1)) == "ckpt/model_0.pt: a data file of the checkpoint is missing");
  CHECK(said(metadata({{"a", {{"f.pt", "TorchSerialization"}}}, {"b", {{"f.pt", "TorchSerialization"}}}}, 1)) ==
        is_not + "f.pt for rank 0 of a and for rank 0 of b" + expected);
  CHECK(said(metadata({{"a", {{"a.npy", "NumpySerialization"}}}}, 1)) == is_not + "rank 0's file of a in NumpySerialization" + expected);
}
