#include "format/torch_archive.h"

#include <catch2/catch_test_macros.hpp>
#include <map>

#include "format/items.h"

using namespace dcp;
using namespace dcp::test;

namespace {

// The frame by position, pieces joined where they touch.
std::map<uint64_t, std::string> frame_of(const TorchArchiveLayout& layout, const std::vector<uint32_t>& crcs) {
  std::map<uint64_t, std::string> pieces;
  uint64_t last = 0;
  layout.emit_frame(crcs, [&](uint64_t offset, Bytes bytes) {
    CHECK(offset >= last);
    last = offset + bytes.size();
    pieces[offset] = as_text(bytes);
  });
  CHECK(last == layout.total_bytes());
  return pieces;
}

// An archive of these payloads as the layout frames it.
std::string archive(TorchArchiveLayout& layout, const std::vector<std::string>& payloads, const std::vector<uint32_t>& crcs) {
  std::string all(layout.total_bytes(), '?');
  for (const auto& [offset, bytes] : frame_of(layout, crcs)) patch(all, offset, bytes);
  for (size_t i = 0; i < payloads.size(); ++i) patch(all, layout.payload(i), payloads[i]);
  return all;
}

// Lays out the records of a real archive again.
std::string rebuilt(const std::string& real) {
  MemoryItem item(real);
  const ZipDirectory directory = read_zip_directory(item, item_place(), Limits{});
  TorchArchiveLayout layout(directory.root);
  std::vector<std::string> payloads;
  std::vector<uint32_t> crcs;
  for (const ZipRecord& record : directory.records) {
    const uint64_t at = payload_of(item, directory, record, item_place());
    payloads.push_back(real.substr(at, record.size));
    crcs.push_back(record.crc);
    CHECK(layout.add(record.name, record.size) == at);
  }
  return archive(layout, payloads, crcs);
}

}  // namespace

TEST_CASE("the same records give torch's own bytes") {
  for (const char* name : {"float32", "float8", "scalar", "empty", "transposed", "nocrc", "dict", "number"}) {
    CAPTURE(name);
    const std::string real = real_item(name);
    CHECK(rebuilt(real) == real);
  }
}

TEST_CASE("records and positions beyond 4 GiB are framed as torch frames them") {
  const std::string real = real_file("zip64.frame");
  TorchArchiveLayout layout;
  const std::vector<std::pair<std::string, uint64_t>> records = {{"data.pkl", 150}, {"data/0", 0xFFFFFFFE},        {"data/1", 0xFFFFFFFF},
                                                                 {"data/2", 0},     {"data/3", 0x100000005},       {"version", 2},
                                                                 {"byteorder", 6},  {".data/serialization_id", 40}};
  for (const auto& [name, bytes] : records) layout.add(name, bytes);
  // The real frame holds the small payloads too; they are compared by leaving them out on both sides.
  std::map<uint64_t, char> expected, got;
  for (size_t at = 0; at < real.size();) {
    const uint64_t offset = load_le<uint64_t>(as_bytes(real).data() + at);
    const uint64_t length = load_le<uint64_t>(as_bytes(real).data() + at + 8);
    for (uint64_t i = 0; i < length; ++i) expected[offset + i] = real[at + 16 + i];
    at += 16 + length;
  }
  for (uint64_t r = 0; r < layout.record_count(); ++r) {
    const auto begin = expected.lower_bound(layout.payload(r));
    expected.erase(begin, expected.lower_bound(layout.payload(r) + layout.payload_bytes(r)));
  }
  for (const auto& [offset, bytes] : frame_of(layout, std::vector<uint32_t>(records.size()))) {
    for (size_t i = 0; i < bytes.size(); ++i) got[offset + i] = bytes[i];
  }
  CHECK(got == expected);
}

TEST_CASE("payloads lie at multiples of 64, whatever the names") {
  TorchArchiveLayout layout("a-rather-long-root-folder");
  for (uint64_t i = 0; i < 300; ++i) CHECK(layout.add("data/" + std::string(i, 'x'), i) % TorchArchiveLayout::kAlignment == 0);
  const std::vector<uint32_t> crcs(layout.record_count());
  const std::string all = archive(layout, {}, crcs);
  MemoryItem item(all);
  const ZipDirectory directory = read_zip_directory(item, item_place(), Limits{});
  REQUIRE(directory.records.size() == 300);
  for (uint64_t i = 0; i < 300; ++i) CHECK(payload_of(item, directory, directory.records[i], item_place()) == layout.payload(i));
}

TEST_CASE("more records than the end record can count") {
  TorchArchiveLayout layout;
  for (int i = 0; i < 70000; ++i) layout.add("data/" + std::to_string(i), 0);
  const std::string all = archive(layout, {}, std::vector<uint32_t>(70000));
  MemoryItem item(all);
  const ZipDirectory directory = read_zip_directory(item, item_place(), Limits{});
  CHECK(directory.records.size() == 70000);
  CHECK(directory.records.back().name == "data/69999");
}

TEST_CASE("an archive of no records is only a tail") {
  const TorchArchiveLayout layout;
  const auto frame = frame_of(layout, {});
  CHECK(layout.total_bytes() == 98);
  CHECK(frame.at(0).size() == 98);
}

TEST_CASE("a size that overflows is an error") {
  TorchArchiveLayout layout;
  CHECK(error_of([&] { layout.add("data/0", ~uint64_t{0} - 10); }).starts_with("number_overflow: "));
}
