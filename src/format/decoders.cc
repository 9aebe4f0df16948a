#include "format/decoders.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "pickle/tokens.h"

namespace dcp {
namespace {

constexpr int kRawWindow = -MAX_WBITS;  // no zlib header and no checksum: the archive has both

uInt count_of(size_t bytes) { return static_cast<uInt>(std::min<size_t>(bytes, std::numeric_limits<uInt>::max())); }

}  // namespace

struct InflateReader::State {
  Pull pull;
  Place place;
  uint64_t left;  // bytes that may still come
  z_stream stream{};
  bool ended = false;

  State(Pull p, Place at, uint64_t max) : pull(std::move(p)), place(std::move(at)), left(max) {
    if (inflateInit2(&stream, kRawWindow) != Z_OK) throw std::bad_alloc();
  }
  ~State() { inflateEnd(&stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[noreturn]] void broken(std::string got) const { fail(ProblemId::deflate_broken, place, std::move(got)); }

  // Returns false at the end of the record.
  bool refill() {
    const Bytes next = pull();
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(next.data()));  // zlib's reader does not write there
    stream.avail_in = count_of(next.size());
    return !next.empty();
  }

  // Decodes one round. 0 bytes do not mean the end, which is `ended`.
  size_t decode(MutableBytes out) {
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = count_of(out.size());
    const uInt room = stream.avail_out;
    const bool more = stream.avail_in > 0 || refill();
    const int result = inflate(&stream, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_STREAM_END) {
      ended = true;
      if (stream.avail_in > 0 || refill()) broken("bytes after its end");
    } else if (result == Z_BUF_ERROR && !more) {
      broken("an end in the middle of it");
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      broken(stream.msg != nullptr ? stream.msg : "error " + std::to_string(result));
    }
    return room - stream.avail_out;
  }
};

InflateReader::InflateReader(Pull pull, Place place, uint64_t max_bytes)
    : state_(std::make_unique<State>(std::move(pull), std::move(place), max_bytes)) {}

InflateReader::~InflateReader() = default;

size_t InflateReader::read(MutableBytes out) {
  State& s = *state_;
  size_t filled = 0;
  while (filled < out.size() && !s.ended) {
    // Once all expected bytes are decoded, it tries to decode one more: there must be none.
    std::byte beyond[1];
    const bool is_full = s.left == 0;
    const size_t got = s.decode(is_full ? MutableBytes(beyond) : out.subspan(filled, std::min<uint64_t>(out.size() - filled, s.left)));
    if (got > 0 && is_full) s.broken("more bytes than the archive's directory says");
    filled += got;
    s.left -= got;
  }
  return filled;
}

namespace {

// 128 MiB: what the zstd library itself takes without being asked. torch's writer uses 2 MiB.
constexpr int kMaxWindowLog = 27;

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

struct ZstdReader::State {
  Pull pull;
  Place place;
  uint64_t left;  // decoded bytes that may still come
  std::unique_ptr<ZSTD_DCtx, FreeContext> context{ZSTD_createDCtx()};
  Bytes input{};
  uint64_t consumed = 0;  // compressed bytes
  bool in_frame = true;   // a slice without any frame is a truncated one
  bool ended = false;

  Place here() const { return at_offset(place, consumed); }
};

ZstdReader::ZstdReader(Pull pull, Place place, uint64_t max_bytes)
    : state_(new State{.pull = std::move(pull), .place = std::move(place), .left = max_bytes}) {
  if (state_->context == nullptr) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(state_->context.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
}

ZstdReader::~ZstdReader() = default;

// One round: takes input if there is none, and decodes some of it. 0 bytes may mean anything but the end, which is `ended`.
size_t ZstdReader::decode(MutableBytes out) {
  State& s = *state_;
  ZSTD_inBuffer input{.src = s.input.data(), .size = s.input.size(), .pos = 0};
  ZSTD_outBuffer output{.dst = out.data(), .size = out.size(), .pos = 0};
  // Without input the decoder may still hold decoded bytes, but not between frames.
  if (s.input.empty() && !s.in_frame) return 0;
  const size_t result = ZSTD_decompressStream(s.context.get(), &output, &input);
  s.consumed += input.pos;
  s.input = s.input.subspan(input.pos);
  if (ZSTD_isError(result) != 0) {
    const bool window = ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge;
    if (window) fail(ProblemId::zstd_window, s.here(), "more than 128 MiB");
    fail(ProblemId::zstd_broken, s.here(), ZSTD_getErrorName(result));
  }
  s.in_frame = result != 0;
  return output.pos;
}

size_t ZstdReader::read(MutableBytes out) {
  State& s = *state_;
  size_t filled = 0;
  while (filled < out.size() && !s.ended) {
    // Once all expected bytes are out, tries to decode one more: there must be none.
    std::byte beyond[1];
    const bool is_full = s.left == 0;
    MutableBytes room = is_full ? MutableBytes(beyond) : out.subspan(filled, std::min<uint64_t>(out.size() - filled, s.left));
    const size_t got = decode(room);
    if (got > 0 && is_full) fail(ProblemId::zstd_too_large, s.here());
    filled += got;
    s.left -= got;
    if (got > 0 || !s.input.empty()) continue;
    s.input = s.pull();
    if (!s.input.empty()) continue;
    if (s.in_frame) fail(ProblemId::zstd_truncated, s.here());
    s.ended = true;
  }
  return filled;
}

}  // namespace dcp
