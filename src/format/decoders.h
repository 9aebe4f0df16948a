// Decoders of compressed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/bytes.h"
#include "base/problem.h"

namespace dcp {

// Bounded decoder of a deflated record (RFC 1951) of an archive. torch.save never writes one; zip tools do, and torch reads them.

class InflateReader {
 public:
  // The next packed bytes, valid until the next call; empty at the end of the record.
  using Pull = std::function<Bytes()>;

  // `place`: of the record's payload; `max_bytes`: its decoded size.
  InflateReader(Pull pull, Place place, uint64_t max_bytes);
  ~InflateReader();
  InflateReader(const InflateReader&) = delete;
  InflateReader& operator=(const InflateReader&) = delete;

  // Fills `out`; returns less only at the end. Throws deflate_broken for a stream that is damaged, ends early or before the record does, or
  // holds too much; and what pull throws.
  size_t read(MutableBytes out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Bounded decoder of items saved through `stream.zstd/1`: zstd frames back to back until the end of the item's slice.
//
// torch's frames have neither a content size nor a checksum (zstandard's streaming writer), so only the caller knows the decoded size.

class ZstdReader {
 public:
  // The next compressed bytes, valid until the next call; empty at the end of the slice.
  using Pull = std::function<Bytes()>;

  // `place`: of the slice; `max_bytes`: its decoded size.
  ZstdReader(Pull pull, Place place, uint64_t max_bytes);
  ~ZstdReader();
  ZstdReader(const ZstdReader&) = delete;
  ZstdReader& operator=(const ZstdReader&) = delete;

  // Fills `out`; returns less only at the end. Throws zstd_broken, zstd_truncated, zstd_window, zstd_too_large (only once `out` asks for
  // more than `max_bytes`), and what pull throws.
  size_t read(MutableBytes out);

 private:
  struct State;
  size_t decode(MutableBytes out);
  std::unique_ptr<State> state_;
};

}  // namespace dcp
