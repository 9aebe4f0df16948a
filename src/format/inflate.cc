#include "format/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>
#include <string>
#include <utility>

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

}  // namespace dcp
