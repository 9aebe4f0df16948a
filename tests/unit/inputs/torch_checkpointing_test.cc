// Checkpoints of torch_checkpointing: what metadata.pkl names, what it leaves to the names of files, and what is left out.
#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/structure.h"
#include "inputs/made_ranks.h"

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
    CHECK(structure_findings(*opened).empty());
    CHECK(opened->catalog.kind == CheckpointKind::kTorchCheckpointing);
    CHECK(listed(opened->catalog) == Texts{"model.w=t", "train.n"});
    CHECK(opened->catalog.tensors[0].chunk_count == 2);
  }
}

TEST_CASE("items in other forms are left out, and it is said why") {
  FakeIo io;
  io.put("ckpt/metadata.pkl", metadata({{"model", {{"model.safetensors", "SafetensorsSerialization"}}},
                                        {"optim", {{"", ""}}},
                                        {"config", {{"config.json", "JsonSerialization"}}}},
                                       1));
  put_object(io, "ckpt/optim_0.pt", 5);
  for (const char* name : {"train_0.json", "blob_0.raw", "blob_0", "train_7.json", "notes.txt"}) io.put(std::string("ckpt/") + name, "x");
  const FrozenCatalog opened = open_checkpoint(io, "ckpt", {});
  CHECK(listed(opened->catalog) == Texts{"optim.n"});
  Texts said;
  for (const Problem& p : structure_findings(*opened)) {
    CHECK(p.id == ProblemId::item_format_unread);
    said.push_back((p.severity == Severity::kDamage ? "damage " : "") + p.place.path + " | " + p.got);
  }
  CHECK(said == Texts{"ckpt/blob_0 | blob, in no known form", "ckpt/blob_0.raw | blob.raw, in .raw",
                      "ckpt/config.json | config, in JsonSerialization",
                      "damage ckpt/model.safetensors | model, in SafetensorsSerialization", "ckpt/train_0.json | train.json, in .json"});
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
        is_not + "f.pt for a and for b, expected a file for each item)");
  CHECK(said(metadata({{"a", {{"a.json", "JsonSerialization"}}}}, 1)) ==
        is_not + "no item that torch.save wrote, expected a checkpoint of torch_checkpointing)");
}
