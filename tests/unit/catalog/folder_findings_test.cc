// What the folder of a checkpoint and the places of its items show.
#include <catch2/catch_test_macros.hpp>

#include "catalog/build.h"
#include "catalog/made_checkpoint.h"
#include "catalog/structure.h"
#include "inputs/open.h"

using namespace dcp;
using namespace dcp::test;

namespace {

MadeCheckpoint two_tensors() {
  MadeCheckpoint made;
  made.tensors = {{"a", DType::uint8, {8}, {whole_chunk({8})}}, {"b", DType::uint8, {8}, {whole_chunk({8})}}};
  made.tensors[1].chunks[0].file = 1;
  return made;
}

std::vector<std::string> lines(const std::vector<Problem>& findings) {
  std::vector<std::string> out;
  for (const Problem& p : findings)
    out.push_back(std::string(id_name(p.id)) + " " + p.place.path + (p.place.tensor.empty() ? "" : " " + p.place.tensor));
  return out;
}
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a folder as torch leaves it shows nothing") {
  FakeIo io;
  two_tensors().put(io, "run/ckpt");
  io.put("run/ckpt/README", "");
  CHECK(inspect_folder(io, read_checkpoint(io, "run/ckpt", {}).catalog).empty());
}

TEST_CASE("leftovers of other saves and of outputs") {
  FakeIo io;
  two_tensors().put(io, "run/ckpt");
  for (const char* name : {"ckpt/__0_1.distcp", "ckpt/__12_0.distcp", "ckpt/other.distcp", "ckpt/.metadata.tmp",
                           "ckpt/.out.pt.dcpctl-partial", ".ckpt.dcpctl-old", ".x.dcpctl-old"})
    io.put(std::string("run/") + name, "x");
  const std::vector<Problem> found = inspect_folder(io, read_checkpoint(io, "run/ckpt", {}).catalog);
  CHECK(lines(found) == Lines{"unfinished_save run/ckpt/.metadata.tmp", "unfinished_output run/ckpt/.out.pt.dcpctl-partial",
                              "orphan_file run/ckpt/__0_1.distcp", "orphan_file run/ckpt/__12_0.distcp",
                              "orphan_file run/ckpt/other.distcp", "unfinished_output run/.ckpt.dcpctl-old"});
  for (const Problem& p : found) CHECK(p.severity == Severity::kWarning);
  CHECK(found[2].got.empty());
  CHECK(found[3].got == "rank 12, and the metadata names files of ranks up to 1");
}

TEST_CASE("items that share bytes are named, each once") {
  FakeIo io;
  MadeCheckpoint made = two_tensors();
  made.tensors[1].chunks[0].file = 0;
  made.put(io, "ckpt");
  Catalog catalog = read_checkpoint(io, "ckpt", {}).catalog;
  CHECK(find_overlapping_items(catalog).empty());
  catalog.items[1].offset = catalog.items[0].length - 1;
  CHECK(lines(find_overlapping_items(catalog)) == Lines{"items_overlap ckpt/__0_0.distcp b"});
  catalog.items[1].offset = 0;
  CHECK(lines(find_overlapping_items(catalog)).size() == 1);
  catalog.items[1].offset = catalog.items[0].length;
  CHECK(find_overlapping_items(catalog).empty());
  // Keys of one object.
  MadeCheckpoint objects;
  for (const char* key : {"a", "b", "c"}) objects.blobs.push_back({.key = key, .pickle = {}, .path = {}});
  Catalog shared = build_catalog(objects.content(), "ckpt", "ckpt").catalog;
  for (Item& i : shared.items) i = {.offset = 8, .length = 600, .file = 0};
  CHECK(find_overlapping_items(shared).empty());
  ++shared.items[1].length;
  CHECK(lines(find_overlapping_items(shared)) == Lines{"items_overlap ckpt/__0_0.distcp b"});
  // A long one reaches over two that do not touch each other.
  catalog.items[0].length = 1'000'000;
  catalog.duplicates.push_back({.item = 1, .key = catalog.tensors[1].key, .other = {.offset = 900'000, .length = 10, .file = 0}});
  CHECK(lines(find_overlapping_items(catalog)) == Lines{"items_overlap ckpt/__0_0.distcp b", "items_overlap ckpt/__0_0.distcp b"});
}
