// From metadata to catalog: what is joined, what is a finding, what is an error.
#include "catalog/build.h"

#include <catch2/catch_test_macros.hpp>
#include <functional>

#include "base/error_line.h"
#include "catalog/made_checkpoint.h"

using namespace dcp;
using namespace dcp::test;

namespace {

MadeTensor chunked(const std::string& key, const Ints& dims, const std::vector<std::pair<Ints, Ints>>& boxes) {
  MadeTensor t{.key = key, .dtype = DType::float32, .dims = dims, .chunks = {}};
  for (const auto& [offsets, sizes] : boxes) t.chunks.push_back({.offsets = offsets, .sizes = sizes});
  return t;
}

// Two tensors and a byte item; each item lies at 100 times its chunk's number, in the order in which it was made.
MadeCheckpoint some() {
  MadeCheckpoint made;
  made.tensors = {chunked("w", {4, 4}, {{{2, 0}, {2, 4}}, {{0, 2}, {2, 2}}, {{0, 0}, {2, 2}}}), chunked("b", {}, {{{}, {}}})};
  made.blobs = {{.key = "step", .pickle = {}, .file = 2, .at = 400, .length = 40}};
  uint64_t at = 0;
  for (MadeTensor& t : made.tensors)
    for (MadeChunk& c : t.chunks) c.at = at += 100, c.length = 10, c.file = 1;
  return made;
}

using Change = std::function<void(MetadataContent&)>;
std::string refusal(const Change& change) {
  MadeCheckpoint made = some();
  MetadataContent content = made.content();
  change(content);
  return error_line([&] { build_catalog(content, "ckpt", "ckpt"); });
}
std::vector<std::string> findings(const Change& change) {
  MadeCheckpoint made = some();
  MetadataContent content = made.content();
  change(content);
  std::vector<std::string> lines;
  for (const Problem& p : build_catalog(content, "ckpt", "ckpt").findings) lines.push_back(to_line(p));
  return lines;
}

}  // namespace

TEST_CASE("chunks are sorted by their offsets, and each has its item") {
  MadeCheckpoint made = some();
  const Catalog c = build_catalog(made.content(), "ckpt/.metadata", "ckpt").catalog;
  CHECK(c.path == "ckpt/.metadata");
  CHECK(c.chunk_total == 4);
  REQUIRE(c.items.size() == 5);
  const Tensor& w = c.tensors[0];
  const std::vector<std::pair<Ints, uint64_t>> expected{{{0, 0}, 300}, {{0, 2}, 200}, {{2, 0}, 100}};
  for (uint32_t i = 0; i < 3; ++i) {
    CHECK(std::ranges::equal(c.box(w, i).offsets, expected[i].first));
    CHECK(c.items[c.item_of(w, i)].offset == expected[i].second);
    CHECK(c.file_name(c.items[c.item_of(w, i)].file) == "__1_0.distcp");
  }
  CHECK(c.items[c.item_of(c.tensors[1], 0)].offset == 400);
  const Item& blob = c.items[c.item_of(BlobId{0})];
  CHECK(blob.offset == 400);
  CHECK(blob.length == 40);
  CHECK(c.file_path(blob.file) == "ckpt/__2_0.distcp");
  CHECK(c.order == std::vector{KeyRef::tensor_at(0), KeyRef::tensor_at(1), KeyRef::blob_at(0)});
  CHECK(c.elements(w) == 16);
  CHECK(c.tensor_bytes(w) == 64);
  CHECK(findings([](MetadataContent&) {}).empty());
}

TEST_CASE("files are sorted by name, and interned names are equal") {
  MadeCheckpoint made = some();
  made.tensors[0].chunks[1].file = 10;
  const Catalog c = build_catalog(made.content(), "ckpt", "ckpt").catalog;
  std::vector<std::string_view> names;
  for (uint32_t f = 0; f < c.files.size(); ++f) names.push_back(c.file_name(f));
  CHECK(names == std::vector<std::string_view>{"__10_0.distcp", "__1_0.distcp", "__2_0.distcp"});
  for (const DataFile& f : c.files) CHECK_FALSE(f.bytes.has_value());
}

TEST_CASE("an empty chunk at the offsets of another does not take its item") {
  for (const bool first : {true, false}) {
    MadeCheckpoint made = some();
    MadeChunk empty{.offsets = {0, 0}, .sizes = {0, 4}};
    empty.has_item = false;
    auto& chunks = made.tensors[0].chunks;
    chunks.insert(first ? chunks.begin() : chunks.end(), empty);
    const Catalog c = build_catalog(made.content(), "ckpt", "ckpt").catalog;
    for (uint32_t i = 0; i < 4; ++i) {
      const bool live = volume(c.box(c.tensors[0], i).sizes) > 0;
      CHECK((c.items[c.item_of(c.tensors[0], i)].file != kNone) == live);
    }
  }
}

TEST_CASE("of chunks at one place those with elements come first") {
  MadeCheckpoint made;
  made.tensors = {chunked("w", {4}, {{{4}, {0}}, {{0}, {0}}, {{0}, {4}}, {{0}, {0}}})};
  for (MadeChunk& c : made.tensors[0].chunks) c.at = 100, c.length = 10, c.file = 1;
  const Catalog c = build_catalog(made.content(), "ckpt", "ckpt").catalog;
  const Tensor& w = c.tensors[0];
  CHECK(c.box(w, 0).sizes[0] == 4);
  CHECK(c.box(w, 1).sizes[0] == 0);
  CHECK(c.box(w, 3).offsets[0] == 4);
  CHECK(c.items[c.item_of(w, 0)].length == 10);
}

TEST_CASE("an index hint may be right, wrong or out of range: the offsets decide") {
  const auto items = [](uint32_t (*hint)(uint32_t n)) {
    MadeCheckpoint made = some();
    MetadataContent content = made.content();
    for (uint32_t n = 0; n < content.storage.size(); ++n) content.storage[n].hint = hint(n);
    std::vector<uint64_t> offsets;
    for (const Item& i : build_catalog(content, "ckpt", "ckpt").catalog.items) offsets.push_back(i.offset);
    return offsets;
  };
  const std::vector<uint64_t> expected{300, 200, 100, 400, 400};
  CHECK(items([](uint32_t) { return UINT32_MAX; }) == expected);
  CHECK(items([](uint32_t n) { return n; }) == expected);
  CHECK(items([](uint32_t n) { return 2 - std::min(n, 2u); }) == expected);
  CHECK(items([](uint32_t n) { return n + 7; }) == expected);
}

TEST_CASE("items that belong to no chunk are findings") {
  const std::string line = "ckpt/__1_0.distcp @ 0x64: tensor 'w': storage_data names an item that belongs to no chunk";
  CHECK(findings([](MetadataContent& c) { c.storage[0].offsets_at = c.chunks[0].sizes_at; }) == std::vector{line});  // (2, 4)
  CHECK(findings([](MetadataContent& c) { c.storage[0].rank = 1; }) == std::vector{line});
  CHECK(findings([](MetadataContent& c) { c.storage[0].has_offset = false; }) ==
        std::vector<std::string>{"ckpt/__1_0.distcp @ 0x64: object 'w': storage_data names an item that belongs to no chunk"});
  CHECK(findings([](MetadataContent& c) { c.storage[0].key = "float32"; }) ==
        std::vector<std::string>{"ckpt/__1_0.distcp @ 0x64: tensor 'float32': storage_data names an item that belongs to no chunk"});
  CHECK(findings([](MetadataContent& c) { c.storage[4].has_offset = true; }).size() == 1);
  CHECK(findings([](MetadataContent& c) { c.storage.pop_back(); }).empty());  // a missing item is found later, where it is needed
}

TEST_CASE("metadata that contradicts itself") {
  CHECK(refusal([](MetadataContent& c) { c.tensors[1].key = "w"; }) == "ckpt: tensor 'w': the metadata holds a key twice");
  CHECK(refusal([](MetadataContent& c) { c.blobs[0] = "b"; }) == "ckpt: tensor 'b': the metadata holds a key twice");
  CHECK(refusal([](MetadataContent& c) {
          c.ints[c.chunks[0].sizes_at + 1] = INT64_MAX;
        }).starts_with("ckpt: tensor 'w': a size overflows 64 bits"));
  CHECK(refusal([](MetadataContent& c) {
          c.ints[c.chunks[1].offsets_at + 1] = INT64_MAX;
        }).starts_with("ckpt: tensor 'w': a size overflows 64 bits: dim 1:"));
  CHECK(refusal([](MetadataContent& c) { c.storage[0].offset = UINT64_MAX; }).starts_with("ckpt: tensor 'w': a size overflows 64 bits"));
}

TEST_CASE("sizes whose product does not fit") {
  const auto refused = [](Ints dims) {
    MadeCheckpoint made;
    made.tensors = {chunked("w", dims, {})};
    return error_id([&] { build_catalog(made.content(), "ckpt", "ckpt"); });
  };
  CHECK(refused({int64_t{1} << 32, int64_t{1} << 32}) == "number_overflow");
  CHECK(refused({int64_t{1} << 31, int64_t{1} << 30}) == "number_overflow");  // 2^63 bytes of float32
  CHECK(refused({int64_t{1} << 30, int64_t{1} << 30}).empty());
  CHECK(refused({0, int64_t{1} << 62, 8}) == "number_overflow");
  CHECK(refused({0, 1 << 20}).empty());
}

TEST_CASE("paths of keys, and of keys that were not saved") {
  MadeCheckpoint made = some();
  made.tensors[0].path = {"model", "#3", "w"};
  MetadataContent content = made.content();
  content.paths.push_back({.key = "gone", .first = 0, .count = 3});
  content.paths.push_back({.key = "float32", .first = 0, .count = 3});
  const Catalog c = build_catalog(content, "ckpt", "ckpt").catalog;
  CHECK(c.has_planner_data);
  const PathRange path = c.tensors[0].path;
  REQUIRE(path.count == 3);
  CHECK(c.strings[c.path_elements[path.first].name_id()] == "model");
  CHECK(c.path_elements[path.first + 1].is_position());
  CHECK(c.path_elements[path.first + 1].list_position() == 3);
  CHECK(c.tensors[1].path.count == 1);
  made.planner_data = false;
  const Catalog without = build_catalog(made.content(), "ckpt", "ckpt").catalog;
  CHECK_FALSE(without.has_planner_data);
  CHECK(without.tensors[0].path.count == 0);
}

TEST_CASE("a tensor that is not strided has no known dtype") {
  MadeCheckpoint made = some();
  MetadataContent content = made.content();
  content.tensors[0].strided = false;
  const Catalog c = build_catalog(content, "ckpt", "ckpt").catalog;
  CHECK_FALSE(c.tensors[0].dtype_known);
  CHECK(c.strings[c.tensors[0].dtype_name] == "float32 (not strided)");
  CHECK(c.tensor_bytes(c.tensors[0]) == 0);
  CHECK(c.tensors[1].dtype_known);
}

TEST_CASE("interned text stays where it is") {
  Strings strings;
  std::vector<std::string_view> views;
  for (int i = 0; i < 20000; ++i) views.push_back(strings[strings.intern("key." + std::to_string(i))]);
  const std::string long_text(200000, 'x');
  const StringId id = strings.intern(long_text);
  CHECK(strings[id] == long_text);
  CHECK(strings.intern("key.7") == 7);
  CHECK(strings.find("key.19999") == 19999u);
  CHECK_FALSE(strings.find("key.20000").has_value());
  for (int i = 0; i < 20000; ++i) REQUIRE(views[static_cast<size_t>(i)] == "key." + std::to_string(i));
  CHECK(strings.size() == 20001);
  CHECK(strings.bytes() > 300000);
}
