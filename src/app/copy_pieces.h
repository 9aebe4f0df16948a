// Bytes that are copied as they are, by several workers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/io.h"
#include "base/workers.h"

namespace dcp {

struct CopyPiece {
  size_t file = 0;  // the caller's file number
  uint64_t from = 0, to = 0, bytes = 0;
};

// `whole` in pieces of at most `max` bytes.
void add_pieces(std::vector<CopyPiece>& pieces, const CopyPiece& whole, uint64_t max);

// copy(part, block) reads a part of a piece, at most 1 MiB, into a block of that size and writes it.
void copy_pieces(const std::vector<CopyPiece>& pieces, unsigned workers, const StopFlag& stop,
                 const std::function<void(const CopyPiece& part, MutableBytes block)>& copy);

}  // namespace dcp
