#include "app/copy_pieces.h"

#include <algorithm>

#include "base/limits.h"

namespace dcp {

void add_pieces(std::vector<CopyPiece>& pieces, const CopyPiece& whole, uint64_t max) {
  for (uint64_t at = 0; at < whole.bytes; at += max)
    pieces.push_back({whole.file, whole.from + at, whole.to + at, std::min(max, whole.bytes - at)});
}

void copy_pieces(const std::vector<CopyPiece>& pieces, unsigned workers, const StopFlag& stop,
                 const std::function<void(const CopyPiece& part, MutableBytes block)>& copy) {
  std::vector<std::vector<std::byte>> buffers(workers);
  parallel_for(workers, pieces.size(), stop, [&](unsigned worker, uint64_t p) {
    std::vector<std::byte>& buffer = buffers[worker];
    buffer.resize(kMiB);
    std::vector<CopyPiece> parts;
    add_pieces(parts, pieces[p], kMiB);
    for (const CopyPiece& part : parts) copy(part, MutableBytes(buffer).first(part.bytes));
  });
}

}  // namespace dcp
