#include <zstd.h>

#include <catch2/catch_test_macros.hpp>
#include <random>

#include "format/decoders.h"
#include "format/items.h"

using namespace dcp;
using namespace dcp::test;

namespace {

std::string frame(const std::string& text, int window_log = 0) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  if (window_log != 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  // Streamed without its size, as torch does: the frame then has the full window.
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  ZSTD_inBuffer none{text.data(), 0, 0};
  ZSTD_compressStream2(context, &to, &in, ZSTD_e_continue);
  ZSTD_compressStream2(context, &to, &none, ZSTD_e_end);
  ZSTD_freeCCtx(context);
  out.resize(to.pos);
  return out;
}

// Decodes with input pieces and output pieces of these sizes.
std::string decoded(const std::string& bytes, uint64_t most, size_t in_step = 1 << 20, size_t out_step = 1 << 20) {
  size_t at = 0;
  ZstdReader reader(
      [&] {
        const Bytes piece = as_bytes(bytes).subspan(at, std::min(in_step, bytes.size() - at));
        at += piece.size();
        return piece;
      },
      Place{.path = "x", .offset = 16}, most);
  std::string out;
  std::vector<std::byte> buffer(out_step);
  while (const size_t n = reader.read(buffer)) out += as_text(Bytes(buffer).first(n));
  CHECK(reader.read(buffer) == 0);
  return out;
}
std::string error(const std::string& bytes, uint64_t most) {
  return error_of([&] { decoded(bytes, most); });
}
std::string noise(size_t bytes) {
  std::mt19937 random(7);
  std::string out(bytes, '\0');
  for (char& c : out) c = static_cast<char>(random() % 7);
  return out;
}

}  // namespace

TEST_CASE("frames are decoded to the end of the slice, in pieces of any size") {
  const std::string text = noise(300000);
  const std::string bytes = frame(text) + frame("") + frame("more");
  for (const size_t in_step : {1u, 777u, 1u << 20}) {
    for (const size_t out_step : {64u, 65536u, 1u << 20}) CHECK(decoded(bytes, text.size() + 4, in_step, out_step) == text + "more");
  }
}

TEST_CASE("no more comes out than belongs there") {
  const std::string bytes = frame(std::string(1 << 24, 'a'));
  CHECK(decoded(bytes, 1 << 24).size() == 1 << 24);
  CHECK(error(bytes, (1 << 24) - 1).starts_with("zstd_too_large: x @ 0x"));
  CHECK(error(bytes, 0).starts_with("zstd_too_large: x @ 0x"));
  CHECK(decoded(frame(""), 0).empty());
}

TEST_CASE("damaged streams") {
  const std::string bytes = frame("hello hello hello");
  CHECK(error("", 9) == "zstd_truncated: x @ 0x10: the zstd stream ends in the middle of a frame");
  for (size_t n = 1; n < bytes.size(); ++n) CHECK(error(bytes.substr(0, n), 99).starts_with("zstd_truncated: x @ 0x"));
  CHECK(error("PK" + bytes, 99).starts_with("zstd_broken: x @ 0x"));
  CHECK(error(bytes + "junk", 99).starts_with("zstd_broken: x @ 0x"));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string copy = bytes;
    copy[i] = static_cast<char>(copy[i] ^ 0x11);
    error(copy, 99);
  }
}

TEST_CASE("a window over 128 MiB is refused before it is allocated") {
  // Magic, frame header descriptor 0 (window byte follows), window 2^28.
  const std::string bytes("\x28\xB5\x2F\xFD\x00\x90\x01\x00\x00", 9);
  CHECK(error(bytes, 99).starts_with("zstd_window: x @ 0x"));
}
