// What is at a path, and whether a checkpoint is whole: exact messages, since a person with a crashed run reads them.
#include "inputs/open.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/made_blobs.h"
#include "catalog/structure.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

// The line, and the hint below it if there is one.
std::string said(FakeIo& io, const std::string& path) {
  try {
    static_cast<void>(read_checkpoint(io, path, {}));
  } catch (const Error& e) {
    return std::string(e.what()) + (e.problem().hint.empty() ? "" : " | " + e.problem().hint);
  }
  return "no error";
}
std::string folder_of(const Lines& files) {
  FakeIo io;
  for (const std::string& f : files) io.put("run/" + f, "x");
  return said(io, "run");
}

MadeCheckpoint two_chunks() {
  MadeCheckpoint made;
  made.tensors = {{.key = "w", .dtype = DType::float32, .dims = {4, 2}, .chunks = {}}};
  made.tensors[0].chunks = {{.offsets = {0, 0}, .sizes = {2, 2}}, {.offsets = {2, 0}, .sizes = {2, 2}}};
  made.tensors[0].chunks[1].file = 1;
  made.blobs = {number_blob("step", 3)};
  return made;
}

Lines faults(FakeIo& io) {
  Lines lines;
  for (const Problem& p : structure_findings(*open_checkpoint(io, "ckpt", {}))) lines.push_back(to_line(p));
  return lines;
}
std::string whole(FakeIo& io) {
  const FrozenCatalog opened = open_checkpoint(io, "ckpt", {});
  const Catalog& c = opened->catalog;
  return error_line([&] { check_whole(c, c.tensors[0]); });
}

}  // namespace

TEST_CASE("a folder, its metadata, and slashes at the end") {
  FakeIo io;
  two_chunks().put(io, "run/step-1");
  CHECK(read_checkpoint(io, "run/step-1", {}).catalog.folder == "run/step-1");
  CHECK(read_checkpoint(io, "run/step-1//", {}).catalog.path == "run/step-1");
  const Catalog c = read_checkpoint(io, "run/step-1/.metadata", {}).catalog;
  CHECK(c.path == "run/step-1/.metadata");
  CHECK(c.folder == "run/step-1");
  CHECK(c.tensors.size() == 1);
  FakeIo here;
  here.put(".metadata", io.text_of("run/step-1/.metadata"));
  CHECK(read_checkpoint(here, ".metadata", {}).catalog.folder == ".");
}

TEST_CASE("what is there in place of a checkpoint") {
  const std::string is_not = "run: is not a checkpoint (got ",
                    expected = ", expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)";
  FakeIo io;
  CHECK(said(io, "nowhere") == "nowhere: there is no such file or folder");
  io.put("model.pt", "x");
  CHECK(said(io, "model.pt") == "model.pt: is not a checkpoint (got another kind of file, expected a DCP folder, a torch.save or "
                                "safetensors file, or a folder of safetensors files)");
  io.put_folder("run");
  CHECK(said(io, "run") == is_not + "an empty folder" + expected);
  CHECK(folder_of({"b", "a"}) == is_not + "a folder with a, b" + expected);
  CHECK(folder_of({"1", "2", "3", "4", "5", "6"}) == is_not + "a folder with 1, 2, 3, 4, 5, ... (6 in all)" + expected);
  CHECK(folder_of({"__0_0.distcp"}) == "run: unfinished: .distcp files but no .metadata");
  CHECK(folder_of({"__0_0.distcp", ".metadata.tmp"}) == "run: unfinished: .metadata.tmp but no .metadata");
  CHECK(folder_of({"step-1/.metadata", "step-2/.metadata", "log"}) ==
        is_not + "a folder of checkpoints" + expected + " | give one of them: run/step-1, run/step-2");
  CHECK(folder_of({".snapshot_metadata", "0/x"}) ==
        is_not + "a torchsnapshot snapshot" + expected + " | read it with torchsnapshot and save it with torch.distributed.checkpoint");
  CHECK(folder_of({"zero_to_fp32.py", "latest"}) ==
        is_not + "a DeepSpeed checkpoint" + expected + " | its zero_to_fp32.py writes the model as a file that dcpctl reads");
}

TEST_CASE("a whole checkpoint has no faults") {
  FakeIo io;
  two_chunks().put(io, "ckpt");
  CHECK(faults(io).empty());
  CHECK(whole(io) == "no error");
}

TEST_CASE("files that are missing or short") {
  FakeIo io;
  MadeCheckpoint made = two_chunks();
  made.put(io, "ckpt");
  const std::string file = io.text_of("ckpt/__1_0.distcp");
  const std::string length = std::to_string(file.size()), less = std::to_string(file.size() - 1);
  io.put("ckpt/__1_0.distcp", file.substr(1));
  REQUIRE(faults(io).size() == 1);
  CHECK(faults(io)[0] ==
        "ckpt/__1_0.distcp: an item reaches past the end of its file (got a file of " + less + " bytes, expected at least " + length + ")");
  CHECK(whole(io) == "ckpt/__1_0.distcp @ 0x0: tensor 'w': an item reaches past the end of its file (got a file of " + less +
                         " bytes, expected at least " + length + ")");
  io.take("ckpt/__1_0.distcp");
  CHECK(faults(io) == Lines{"ckpt/__1_0.distcp: a data file of the checkpoint is missing"});
  CHECK(whole(io) == "ckpt/__1_0.distcp @ 0x0: tensor 'w': a data file of the checkpoint is missing: chunk [2:4, 0:2]");
}

TEST_CASE("chunks without an item, holes, overlaps") {
  const auto spoiled = [](auto&& spoil) {
    MadeCheckpoint made = two_chunks();
    spoil(made.tensors[0].chunks);
    FakeIo io;
    made.put(io, "ckpt");
    const Lines lines = faults(io);
    REQUIRE(lines.size() == 1);
    CHECK(whole(io) == lines[0]);
    return lines[0];
  };
  using Chunks = std::vector<MadeChunk>;
  CHECK(spoiled([](Chunks& c) { c[1].has_item = false; }) == "ckpt: tensor 'w': storage_data names no item for this: chunk [2:4, 0:2]");
  CHECK(spoiled([](Chunks& c) { c.pop_back(); }) == "ckpt: tensor 'w': the chunks of the tensor leave a hole: [2:4, 0:2] in no chunk");
  CHECK(spoiled([](Chunks& c) { c[0].sizes = {3, 2}; }) == "ckpt: tensor 'w': two chunks of the tensor overlap: [2:3, 0:2] in two chunks");
}

TEST_CASE("a chunk outside its tensor, and one that storage_data names twice") {
  const auto with = [](const std::function<void(MetadataContent&)>& change) {
    MadeCheckpoint made = two_chunks();
    FakeIo io;
    made.put(io, "ckpt");
    MetadataContent content = made.content();
    change(content);
    io.put("ckpt/.metadata", write_dcp_metadata(content));
    const Lines lines = faults(io);
    REQUIRE(lines.size() == 1);
    if (lines[0].find("object") == std::string::npos) CHECK(whole(io) == lines[0]);
    return lines[0];
  };
  CHECK(with([](MetadataContent& c) { c.ints[c.chunks[1].offsets_at] = 3; }) ==
        "ckpt: tensor 'w': a chunk reaches outside its tensor (got dim 0: 3 + 2, expected at most 4)");
  const std::string twice = "storage_data names two items for this";
  CHECK(with([](MetadataContent& c) { c.storage.push_back(c.storage[1]); }) == "ckpt: tensor 'w': " + twice + ": chunk [2:4, 0:2]");
  CHECK(with([](MetadataContent& c) { c.storage.push_back(c.storage[2]); }) == "ckpt: object 'step': " + twice);
}

TEST_CASE("a data file that cannot be read is a fault of what lies in it") {
  FakeIo io;
  two_chunks().put(io, "ckpt");
  io.put("ckpt/__1_0.distcp", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1000\n");
  CHECK(faults(io) == Lines{"ckpt/__1_0.distcp: is a Git LFS pointer, not the file itself"});
  CHECK(whole(io) == "ckpt/__1_0.distcp: is a Git LFS pointer, not the file itself");
  FakeIo linked;
  two_chunks().put(linked, "ckpt");
  linked.before = [](dcp::test::Op op, uint64_t k) {
    if (op == dcp::test::Op::kOpen && k == 2)
      fail(ProblemId::link_refused, {.path = "ckpt/__1_0.distcp"});  // the metadata, the first file, the second
  };
  const FrozenCatalog opened = open_checkpoint(linked, "ckpt", {});
  const Catalog& c = opened->catalog;
  const std::vector<Problem> found = structure_findings(*opened);
  REQUIRE(found.size() == 1);
  CHECK(found[0].id == ProblemId::link_refused);
  CHECK(found[0].severity == Severity::kDamage);
  CHECK(error_line([&] { check_whole(c, c.tensors[0]); }) == "ckpt/__1_0.distcp: is a symbolic link");
  CHECK_NOTHROW(check_item(c, c.item_of(BlobId{0}), "step", ""));
}

TEST_CASE("an empty chunk needs no item") {
  MadeCheckpoint made = two_chunks();
  made.tensors[0].chunks.push_back({.offsets = {4, 0}, .sizes = {0, 2}});
  made.tensors[0].chunks.back().has_item = false;
  FakeIo io;
  made.put(io, "ckpt");
  CHECK(faults(io).empty());
  CHECK(whole(io) == "no error");
}

TEST_CASE("rank-local metadata is one checkpoint together") {
  // Each rank has written its own chunk, and both the byte item.
  FakeIo io;
  for (unsigned rank = 0; rank < 2; ++rank) {
    MadeCheckpoint made = two_chunks();
    made.tensors[0].chunks = {made.tensors[0].chunks[rank]};
    made.blobs[0].file = rank;
    made.put(io, "part");
    io.put("ckpt/__" + std::to_string(rank) + ".metadata", io.text_of("part/.metadata"));
    io.put("ckpt/" + made.file_name(rank), io.text_of("part/" + made.file_name(rank)));
  }
  CHECK(faults(io).empty());
  const Catalog c = read_checkpoint(io, "ckpt", {}).catalog;
  CHECK(c.kind == CheckpointKind::kDcpRankLocal);
  REQUIRE(c.tensors.size() == 1);
  CHECK(c.tensors[0].chunk_count == 2);
  CHECK(c.file_name(c.items[c.item_of(c.tensors[0], 1)].file) == "__1_0.distcp");
  REQUIRE(c.duplicates.size() == 1);
  CHECK(c.file_name(c.items[c.item_of(BlobId{0})].file) == "__0_0.distcp");
  const Catalog other = read_checkpoint(io, "ckpt", {.limits = {}, .prefer_rank = 1}).catalog;
  CHECK(other.file_name(other.items[other.item_of(BlobId{0})].file) == "__1_0.distcp");
  CHECK(error_id([&] { read_checkpoint(io, "ckpt", {.limits = {}, .prefer_rank = 2}); }) == "usage");
  io.take("ckpt/__0.metadata");
  const Lines lines = faults(io);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].ends_with(": no __0.metadata beside __1.metadata"));
  CHECK(lines[1] == "ckpt: tensor 'w': the chunks of the tensor leave a hole: [0:2, 0:2] in no chunk");
}

TEST_CASE("the name of a file suggests a checkpoint, makes its folder one, or neither") {
  struct Name {
    const char* name;
    bool is_checkpoint, describes, has_description;
  };
  constexpr Name kNames[] = {
      {".metadata", true, true, true},
      {"__3.metadata", false, true, true},
      {"metadata.pkl", true, true, true},
      {"model_world_size_2_rank_1.pt", true, true, false},  // it is data, too
      {"model.safetensors", true, true, true},
      {"model.safetensors.index.json", true, true, true},
      {"model.pt", true, false, false},
      {"last.ckpt", true, false, false},
      {"__0_0.distcp", false, false, false},
      {"config.json", false, false, false},
      {"", false, false, false},
  };
  for (const Name& n : kNames) {
    INFO(n.name);
    CHECK(is_checkpoint_name(n.name) == n.is_checkpoint);
    CHECK(describes_checkpoint(n.name) == n.describes);
    CHECK(has_description(n.name) == n.has_description);
  }
}

TEST_CASE("what describes a checkpoint is read without its data") {
  test::FakeIo io;
  const std::string header = R"({"a":{"dtype":"U8","shape":[300000],"data_offsets":[0,300000]}})";
  std::string file(sizeof(uint64_t), '\0');
  file[0] = static_cast<char>(header.size());
  file += header + std::string(300'000, 'x');
  io.put("f/model.safetensors", file);
  io.put("f/model.safetensors.index.json", "{}");
  io.put("f/.metadata", "pickle");
  const Description part = read_description(io, "f/model.safetensors", {});
  CHECK(part.size == file.size());
  CHECK(part.bytes.size() >= sizeof(uint64_t) + header.size());
  CHECK(part.bytes.size() < 100'000);
  CHECK(file.starts_with(as_text(part.bytes)));
  for (const char* whole : {"f/model.safetensors.index.json", "f/.metadata"}) {
    const Description all = read_description(io, whole, {});
    CHECK(as_text(all.bytes) == io.text_of(whole));
    CHECK(all.size == all.bytes.size());
  }
  CHECK(test::error_id([&] { read_description(io, "f/.metadata", {.metadata_bytes = 5}); }) == "over_limit");
}
