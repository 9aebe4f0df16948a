#include <zlib.h>

#include <catch2/catch_test_macros.hpp>
#include <random>

#include "format/decoders.h"
#include "format/item_archive.h"
#include "format/items.h"
#include "pickle/tokens.h"

using namespace dcp;
using namespace dcp::test;

namespace {

std::string deflate(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string inflate(const std::string& packed, uint64_t most, size_t pull_bytes, size_t read_bytes) {
  size_t at = 0;
  const auto pull = [&] {
    const size_t n = std::min(pull_bytes, packed.size() - at);
    at += n;
    return as_bytes(packed).subspan(at - n, n);
  };
  InflateReader reader(pull, item_place(), most);
  std::string out;
  std::vector<std::byte> block(read_bytes);
  while (const size_t n = reader.read(block)) out += as_text(Bytes(block).first(n));
  return out;
}

std::string text_of(size_t bytes) {
  std::mt19937_64 random(3);
  std::string text(bytes, 'a');
  for (size_t i = 0; i < bytes; i += 1 + random() % 40) text[i] = static_cast<char>(random());
  return text;
}

std::string inflate_error(const std::string& packed, uint64_t most) {
  return error_of([&] { inflate(packed, most, 7, 50); });
}

}  // namespace

TEST_CASE("what was deflated comes out, whatever the blocks") {
  for (const size_t bytes : {0u, 1u, 2u, 1000u, 200000u}) {
    const std::string text = text_of(bytes), packed = deflate(text);
    for (const size_t pull : {1u, 3u, 4096u, 1000000u})
      for (const size_t read : {1u, 777u, 1000000u}) {
        if (bytes == 200000 && pull + read < 100) continue;
        REQUIRE(inflate(packed, bytes, pull, read) == text);
      }
  }
}

TEST_CASE("deflated streams that are not what belongs there") {
  const std::string text = text_of(1000), packed = deflate(text);
  const std::string broken = "deflate_broken: x.distcp: a compressed record is damaged (got ";
  CHECK(inflate_error(packed, 999) == broken + "more bytes than the archive's directory says)");
  CHECK(inflate_error(packed + "x", 1000) == broken + "bytes after its end)");
  CHECK(inflate_error(packed.substr(0, packed.size() - 1), 1000) == broken + "an end in the middle of it)");
  CHECK(inflate_error("", 1000) == broken + "an end in the middle of it)");
  CHECK(inflate_error("\x07", 1000) == broken + "invalid block type)");
  for (size_t n = 0; n < packed.size(); ++n) CHECK(inflate_error(packed.substr(0, n), 1000) != "");
}

TEST_CASE("records are read as they are or inflated, and as long as the directory says") {
  const std::string text = text_of(300000), packed = deflate(text);
  const auto read = [](const std::string& bytes) {
    MemoryItem item(bytes);
    const ZipDirectory d = read_zip_directory(item, item_place(), Limits{});
    std::string out;
    read_record(item, d.records[0], payload_of(item, d, d.records[0], item_place()), item_place(), [&](Bytes b) { out += as_text(b); });
    return out;
  };
  const auto sized = [&](uint32_t size) {
    std::string bytes = PlainZip().add("r/a", packed, 0, 8).finish();
    std::string number;
    put_le(number, size, 4);
    patch(bytes, position(bytes, "PK\1\2") + 24, number);
    return bytes;
  };
  CHECK(read(PlainZip().add("r/a", text).finish()) == text);
  CHECK(read(sized(300000)) == text);
  CHECK(read(PlainZip().add("r/a", "", 0, 8).finish()).empty());
  CHECK(error_of([&] { read(sized(300001)); }).ends_with("(got 300000 bytes, expected 300001)"));
  CHECK(error_of([&] { read(sized(299999)); }).ends_with("(got more bytes than the archive's directory says)"));
  CHECK(error_of([&] { read(sized(4000000000)); }).starts_with("zip_bad_directory: x.distcp > a @ "));
}
