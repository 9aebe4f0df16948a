#include "ranks/tree.h"

#include <algorithm>

namespace dcp {
namespace {

constexpr uint32_t kTag = 0;  // of all messages of trees: one thread sends them, so they arrive in order
constexpr uint64_t kAtOnce = 64 << 20;

}  // namespace

void RankTree::send(uint32_t to, Bytes bytes) {
  const uint64_t count = bytes.size();
  session_.link().send(to, kTag, {reinterpret_cast<const std::byte*>(&count), sizeof count}).wait();
  for (uint64_t at = 0; at < count; at += kAtOnce) session_.link().send(to, kTag, bytes.subspan(at, std::min(kAtOnce, count - at))).wait();
}

std::vector<std::byte> RankTree::receive(uint32_t from) {
  const auto count = load_le<uint64_t>(session_.link().receive_all(from, kTag, sizeof(uint64_t)).data());
  std::vector<std::byte> bytes;
  bytes.reserve(std::min(count, kAtOnce));  // the announced count may be wrong
  for (uint64_t at = 0; at < count; at += kAtOnce) {
    const std::vector<std::byte> part = session_.link().receive_all(from, kTag, std::min(kAtOnce, count - at));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

// Rank r receives from r without its highest bit, and sends to r + 2^k for all 2^k above that bit.
std::vector<std::byte> RankTree::broadcast(std::vector<std::byte> bytes, const std::function<void(Bytes)>& has) {
  const uint32_t rank = session_.rank(), world = session_.world_size();
  uint32_t step = 1;
  while (step <= rank) step *= 2;
  if (rank > 0) bytes = receive(rank - step / 2);
  if (has) has(bytes);
  for (; step < world; step *= 2)
    if (rank + step < world) send(rank + step, bytes);
  return bytes;
}

// Rank r receives from r + 2^k for all 2^k below its lowest bit, and sends to r without that bit.
void RankTree::gather(const std::function<void(Bytes)>& merge, const std::function<std::vector<std::byte>()>& take) {
  const uint32_t rank = session_.rank(), world = session_.world_size();
  for (uint32_t step = 1; step < world; step *= 2) {
    if (rank & step) return send(rank - step, take());
    if (rank + step < world) merge(receive(rank + step));
  }
}

}  // namespace dcp
