#include "format/zstd_stream.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>
#include <utility>

#include "pickle/tokens.h"

namespace dcp {
namespace {

// 128 MiB: the zstd library's own default limit. torch's writer uses 2 MiB.
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

// Decodes one round, after taking input if there is none. 0 bytes do not mean the end, which is `ended`.
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
    // Once all expected bytes are decoded, it tries to decode one more: there must be none.
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
