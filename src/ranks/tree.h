// Broadcast from rank 0 to all, and gather from all to rank 0, along a binomial tree. No rank talks to more than log2(world size) others,
// so a broadcast of B bytes costs each rank at most log2(world size) times B, and time grows with log2 of the world size.
#pragma once

#include <functional>
#include <vector>

#include "ranks/session.h"

namespace dcp {

// Every rank must make every call, in the same order, from one thread.
class RankTree {
 public:
  explicit RankTree(Session& session) : session_(session) {}
  // Returns rank 0's bytes; the arguments of other ranks are ignored. `has` is called with the bytes before they are passed on.
  std::vector<std::byte> broadcast(std::vector<std::byte> bytes, const std::function<void(Bytes)>& has = {});
  // Calls merge() with the bytes of each rank below this one, then take() for the combined bytes to pass on. take() is not called at rank
  // 0.
  void gather(const std::function<void(Bytes)>& merge, const std::function<std::vector<std::byte>()>& take);

 private:
  void send(uint32_t to, Bytes bytes);
  std::vector<std::byte> receive(uint32_t from);
  Session& session_;
};

}  // namespace dcp
