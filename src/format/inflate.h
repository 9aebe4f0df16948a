// Bounded decoder of a deflated record (RFC 1951) of an archive. torch.save never writes one; zip tools do, and torch reads them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/bytes.h"
#include "base/problem.h"

namespace dcp {

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

}  // namespace dcp
