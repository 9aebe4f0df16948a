// safetensors files as checkpoints: one, several with and without an index, shards of torch, and as data files of a `.metadata`.

#include "format/safetensors.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/made_checkpoint.h"
#include "catalog/placements.h"
#include "catalog/structure.h"
#include "inputs/hf_index.h"
#include "inputs/open.h"
#include "items/resolve.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

struct NamedTensor {
  std::string name;
  DType dtype{};
  Ints shape;
  std::string offsets = "";  // saved_offsets as JSON: the tensor is a shard
};

// Each tensor's bytes are its name over and over.
std::string file_of(const std::vector<NamedTensor>& tensors, const std::string& extra = "") {
  std::vector<SafetensorsEntry> entries;
  std::string info;
  for (const NamedTensor& t : tensors) {
    entries.push_back({.name = t.name, .dtype = t.dtype, .shape = t.shape});
    if (!t.offsets.empty()) info += (info.empty() ? "{\"" : ",\"") + t.name + "\":{\"saved_offsets\":" + t.offsets + extra + "}";
  }
  std::string out = write_safetensors_header(
      entries, info.empty() ? std::map<std::string, std::string>{} : std::map<std::string, std::string>{{"DCP_SHARDING_INFO", info + "}"}});
  for (const SafetensorsEntry& e : entries)
    for (uint64_t i = 0; i < e.bytes; ++i) out += e.name[i % e.name.size()];
  return out;
}

Lines lines_of(const std::vector<Problem>& findings) {
  Lines lines;
  for (const Problem& p : findings) lines.push_back(to_line(p));
  return lines;
}
Lines findings(const OpenedCatalog& c) { return lines_of(c.findings); }
std::string shardings(const Catalog& c) {
  std::string text;
  for (const Tensor& t : c.tensors) text += (text.empty() ? "" : " ") + std::string(c.key(t)) + ":" + sharding_words(c, t);
  return text;
}

}  // namespace

TEST_CASE("a file is known by its content, whatever its name") {
  FakeIo io;
  io.put("dir/model.bin", file_of({{"w", DType::bfloat16, {2, 3}}, {"s", DType::int64, {}}}));
  const FrozenCatalog opened = open_checkpoint(io, "dir/model.bin", {});
  const Catalog& c = opened->catalog;
  CHECK(c.kind == CheckpointKind::kSafetensors);
  CHECK(c.single_file);
  CHECK(c.folder == "dir");
  CHECK(shardings(c) == "w:whole s:whole");
  CHECK(c.file_path(0) == "dir/model.bin");
  REQUIRE(c.files[0].bytes);
  DataFiles files(io, c, FollowLinks::kCacheOnly);
  const std::vector<TensorId> all{0, 1};
  const StopFlag stop{0};
  const Resolved r = resolve(files, all, {}, {}, stop);
  CHECK(r.bytes_read == 0);
  CHECK(r.items[0].record == c.items[0].offset);
  CHECK(r.items[0].record_bytes == 12);
  CHECK(r.items[0].dtype == DType::bfloat16);
  CHECK_FALSE(r.items[0].has_crc);
}

TEST_CASE("files of a folder are one checkpoint") {
  FakeIo io;
  io.put("hf/config.json", "{}");
  io.put("hf/a.safetensors", file_of({{"a", DType::float32, {2}}}));
  io.put("hf/b.safetensors", file_of({{"b", DType::float32, {3}}}));
  const OpenedCatalog opened = read_checkpoint(io, "hf", {});
  const Catalog& c = opened.catalog;
  CHECK(c.kind == CheckpointKind::kHf);
  CHECK_FALSE(c.single_file);
  CHECK(shardings(c) == "a:whole b:whole");
  CHECK(findings(opened).empty());
  CHECK(c.provenance.loads_in.empty());
}

TEST_CASE("an index is known by its name, that of a variant too") {
  for (const char* name :
       {"model.safetensors.index.json", "diffusion_model.safetensors.index.fp16.json", "a.safetensors.b.safetensors.index.json"})
    CHECK(is_index_name(name, ".safetensors"));
  for (const char* name : {"model.safetensors.index", "model.safetensors.index.fp16", "model.safetensors.index.a.b.json",
                           "model.bin.index.json", "index.json"})
    CHECK_FALSE(is_index_name(name, ".safetensors"));
}

TEST_CASE("an index says which files count, and of a tensor in two files which") {
  FakeIo io;
  io.put("hf/a.safetensors", file_of({{"a", DType::float32, {2}}, {"b", DType::float32, {1}}}));
  io.put("hf/b.safetensors", file_of({{"b", DType::float32, {3}}}));
  io.put("hf/old.safetensors", file_of({{"a", DType::float32, {9}}}));
  io.put("hf/model.safetensors.index.json",
         R"({"metadata": {"total_size": 20.0, "x": [1]}, "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})");
  const Lines expected{
      "hf/model.safetensors.index.json: tensor 'b': a second copy of the tensor, in a file that the index names for others, is ignored "
      "(got shape [1] in a.safetensors, expected [3] as in b.safetensors)",
      "hf/old.safetensors: no index or item names this file: it is ignored"};
  for (const std::string path : {"hf", "hf/model.safetensors.index.json"}) {
    const OpenedCatalog opened = read_checkpoint(io, path, {});
    const Catalog& c = opened.catalog;
    REQUIRE(c.tensors.size() == 2);
    CHECK(c.dims(c.tensors[1])[0] == 3);
    CHECK(findings(opened) == expected);
    CHECK(error_line([&] { check_opened(opened, [](std::string_view) { return false; }); }) == "no error");
  }
}

TEST_CASE("damage of an index stops writers, but for keys that they leave out") {
  FakeIo io;
  io.put("hf/a.safetensors", file_of({{"a", DType::float32, {2}}}));
  io.put("hf/model.safetensors.index.json", R"({"weight_map": {"a": "a.safetensors", "b": "a.safetensors"}})");
  const OpenedCatalog opened = read_checkpoint(io, "hf", {});
  CHECK(error_id([&] { check_opened(opened, [](std::string_view) { return false; }); }) == "hf_index_no_tensor");
  CHECK(error_line([&] { check_opened(opened, [](std::string_view key) { return key == "b"; }); }) == "no error");
}

TEST_CASE("shards of torch's writer") {
  FakeIo io;
  io.put("s/shard-00001-model-00001-of-00001.safetensors", file_of({{"w", DType::float32, {2, 3}, "[0, 0]"},
                                                                    {"n", DType::int64, {}, "[]"},
                                                                    {"e", DType::float16, {1}, "[0]"},
                                                                    {"whole", DType::bool_, {2}}}));
  io.put("s/shard-00002-model-00001-of-00001.safetensors",
         file_of({{"w", DType::float32, {1, 3}, "[2, 0]"}, {"e", DType::float16, {0}, "[1]"}}));
  io.put("s/shard-00003-model-00001-of-00001.safetensors", file_of({{"e", DType::float16, {0}, "[1]"}}));
  const FrozenCatalog opened = open_checkpoint(io, "s", {});
  const Catalog& c = opened->catalog;
  CHECK(shardings(c) == "w:Shard(0) x2 uneven n:whole e:Shard(0) x2 uneven whole:whole");
  CHECK(findings(*opened) == Lines{to_line(make_problem(ProblemId::shard_count_unknown, {.path = "s"}, "shard-00001 to shard-00003"))});
  CHECK(std::ranges::equal(c.dims(c.tensors[0]), Ints{3, 3}));
  for (const Tensor& t : c.tensors) CHECK(error_line([&] { check_whole(c, t); }) == "no error");
}

TEST_CASE("several chunks of one fqn under names of their own") {
  FakeIo io;
  io.put("s/x.safetensors", file_of({{"w.__dcp_shard_0", DType::float32, {1}, "[0]"}}, ",\"logical_fqn\":\"w\""));
  io.put("s/y.safetensors", file_of({{"w.__dcp_shard_1", DType::float32, {2}, "[1]"}}, ",\"logical_fqn\":\"w\""));
  CHECK(shardings(read_checkpoint(io, "s", {}).catalog) == "w:Shard(0) x2 uneven");
}

TEST_CASE("numbers that are missing") {
  const auto told = [](const Lines& names) {
    FakeIo io;
    int n = 0;
    for (const std::string& name : names)
      io.put("s/" + name + ".safetensors", file_of({{std::to_string(n++), DType::float32, {1}, "[0]"}}));
    return findings(read_checkpoint(io, "s", {}));
  };
  CHECK(told({"model-00001-of-00001", "model-1-of", "of-1", "shard-1-of-x"}).empty());
  CHECK(told({"model-00001-of-00003", "model-00003-of-00003"}) ==
        Lines{"s: the files are numbered, and one is missing: no model-00002-of-00003"});
  const std::string gap = "s: a numbered file is missing: either it was never written, or data that only it held is lost ";
  CHECK(told({"shard-00001-model-00002-of-00002", "shard-00002-model-00002-of-00002"}) == Lines{gap + "(no model-00001-of-00002)"});
  CHECK(told({"shard-00002-model-00001-of-00001"}) == Lines{gap + "(no shard-00001 beside shard-00002)"});
}

TEST_CASE("data files of a .metadata that are safetensors files") {
  FakeIo io;
  MadeCheckpoint made;
  made.tensors = {{.key = "w", .dtype = DType::float32, .dims = {4, 2}, .chunks = {}},
                  {.key = "b", .dtype = DType::int16, .dims = {3}, .chunks = {whole_chunk({3})}}};
  made.tensors[0].chunks = {{.offsets = {0, 0}, .sizes = {2, 2}}, {.offsets = {2, 0}, .sizes = {2, 2}, .file = 1}};
  made.put(io, "ckpt");
  MetadataContent content = made.content();
  for (auto& s : content.storage) {
    s.offset = 0;
    s.length = s.key == "w" ? 16 : 6;
  }
  io.put("ckpt/.metadata", write_dcp_metadata(content));
  io.put("ckpt/__0_0.distcp", file_of({{"w", DType::float32, {2, 2}, "[0, 0]"}, {"b", DType::int16, {3}, "[0]"}}));
  io.put("ckpt/__1_0.distcp", file_of({{"w", DType::float32, {2, 2}, "[2, 0]"}}));
  const FrozenCatalog opened = open_checkpoint(io, "ckpt", {});
  const Catalog& c = opened->catalog;
  CHECK(c.kind == CheckpointKind::kDcp);
  CHECK(c.files[0].raw);
  const auto unread = [](const char* file) {
    return std::string("ckpt/") + file + ": a data file is a safetensors file: dcpctl reads it, but no torch's dcp.load does";
  };
  CHECK(lines_of(structure_findings(*opened)) == Lines{unread("__0_0.distcp"), unread("__1_0.distcp")});
  const Item& b = c.items[c.item_of(c.tensors[1], 0)];
  CHECK(io.text_of("ckpt/__0_0.distcp").substr(b.offset, b.length) == "bbbbbb");
  // The other rank's file holds the chunk that this one should hold: what is lost is told, and the tensor is not whole.
  io.put("ckpt/__0_0.distcp", file_of({{"w", DType::float32, {2, 2}, "[2, 0]"}, {"b", DType::int16, {3}, "[0]"}}));
  CHECK(findings(read_checkpoint(io, "ckpt", {})) ==
        Lines{"ckpt/__0_0.distcp: tensor 'w': a chunk of the tensor is not in its file (expected chunk [0:2, 0:2])", unread("__0_0.distcp"),
              unread("__1_0.distcp")});
  io.put("ckpt/__0_0.distcp", file_of({{"w", DType::float16, {2, 2}, "[0, 0]"}, {"b", DType::int16, {3}, "[0]"}}));
  CHECK(error_id([&] { read_checkpoint(io, "ckpt", {}); }) == "shards_disagree");
}
