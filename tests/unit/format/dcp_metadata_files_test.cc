#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error_line.h"
#include "format/dcp_metadata.h"
#include "format/dcp_metadata_text.h"
#include "format/dcp_metadata_writer.h"
#include "metadata_facts.h"

namespace dcp {
namespace {

using namespace test;

std::vector<std::filesystem::path> real_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(DCPCTL_TEST_DATA)) {
    if (entry.path().filename() == ".metadata") files.push_back(entry.path());
  }
  return files;
}
std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("what the writer writes reads as what was read") {
  REQUIRE(real_files().size() > 5);
  for (const auto& path : real_files()) {
    CAPTURE(path.string());
    const std::string file = bytes_of_file(path);
    const MetadataContent before = read_content(file);
    const std::string written = write_dcp_metadata(before);
    const MetadataContent after = read_content(written);
    CHECK(facts(after) == facts(before));
    CHECK(after.properties_fields == (before.tensors.empty() ? 0 : 5));
    CHECK(write_dcp_metadata(after) == written);
  }
}

TEST_CASE("keys read alone are those of the whole") {
  for (const auto& path : real_files()) {
    CAPTURE(path.string());
    const std::string file = bytes_of_file(path);
    const MetadataContent whole = read_content(file);
    std::vector<std::string> keys;
    for (const KeyRef ref : whole.order) keys.emplace_back(ref.is_blob() ? whole.blobs[ref.blob()] : whole.tensors[ref.tensor()].key);
    CHECK(read_dcp_keys(as_bytes(file), {}, {}).value_or(std::vector<std::string>{}) ==
          (whole.storage.empty() ? std::vector<std::string>{} : keys));
  }
  CHECK_FALSE(read_dcp_keys(as_bytes("\x80\x02N."), {}, {}));
}

TEST_CASE("a layout that is not strided is not written") {
  const MetadataText sparse{.layout = call(global("torch.serialization", "_get_layout"), short_text("torch.sparse_coo"))};
  const MetadataContent c = read_content(sparse.pickle);
  CHECK_FALSE(c.tensors[0].strided);
  CHECK(error_id([&] { write_dcp_metadata(c); }) == "metadata_field");
}

TEST_CASE("batches, blocks and 64-bit numbers of the writer") {
  MetadataContent c;
  c.transforms.emplace_back();
  c.files = {"f"};
  c.ints = {0, 0, int64_t{1} << 40};
  c.tensors.push_back({.key = "t", .dtype = DType::float32, .dtype_name = "float32", .rank = 1, .dims_at = 2, .chunk_count = 2500});
  c.order = {KeyRef::tensor_at(0)};
  for (uint64_t i = 0; i < 2500; ++i) {
    c.chunks.push_back({.offsets_at = 0, .sizes_at = 1});
    c.storage.push_back({.key = "t", .has_offset = true, .rank = 1, .offset = i << 40, .length = 7});
  }
  uint64_t blocks = 0;
  std::string file;
  write_dcp_metadata(c, [&](std::string_view block) {
    ++blocks;
    file += block;
  });
  CHECK(blocks > 2);
  CHECK(facts(read_content(file)) == facts(c));
  CHECK(file.size() < 2500 * 110);
}

// Every file that a damaged one could be reads or is an Error; nothing else.
void attempt(const std::string& damaged) {
  try {
    (void)facts(read_content(damaged));
  } catch (const Error&) {
  }
}

TEST_CASE("every truncation of real files is an Error") {
  for (const char* name : {"torch113", "torch23", "nocrc", "zstd"}) {
    const std::string file = bytes_of_file(std::filesystem::path(DCPCTL_TEST_DATA) / name / "ckpt" / ".metadata");
    REQUIRE_FALSE(file.empty());
    for (size_t n = 0; n < file.size(); ++n) REQUIRE(error_id([&] { read_content(file.substr(0, n)); }).starts_with("pickle_"));
  }
}

TEST_CASE("a content whose text is held outlives its pickle") {
  for (const char* name : {"torch113", "fsdp2_ws4", "zstd"}) {
    std::string pickle = bytes_of_file(std::filesystem::path(DCPCTL_TEST_DATA) / name / "ckpt" / ".metadata");
    MetadataContent c = read_content(pickle);
    const std::string before = facts(c);
    const std::deque<std::string> text = hold_text(c);
    std::ranges::fill(pickle, '\0');
    CHECK(facts(c) == before);
    size_t held = 0;
    for (const std::string& t : text) held += t.size();
    CHECK(held < pickle.size());
  }
}

TEST_CASE("every flipped byte of real files reads or is an Error") {
  for (const char* name : {"torch113", "torch23", "nocrc"}) {
    const std::string file = bytes_of_file(std::filesystem::path(DCPCTL_TEST_DATA) / name / "ckpt" / ".metadata");
    for (size_t n = 0; n < file.size(); ++n) {
      for (const int flip : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
        std::string damaged = file;
        damaged[n] = static_cast<char>(damaged[n] ^ flip);
        attempt(damaged);
      }
    }
  }
  SUCCEED();
}

}  // namespace
}  // namespace dcp
