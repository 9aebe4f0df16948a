// What all ranks know together: bytes from rank 0 to all, and from all to rank 0, along a binomial tree. No rank talks to more than
// log2(world size) others, so a broadcast of B bytes costs each rank at most that many times B, and a step takes log2 as long, not world
// size.
#pragma once

#include <functional>
#include <vector>

#include "ranks/session.h"

namespace dcp {

// Every call is made by all ranks, in the same order, from one thread.
class RankTree {
 public:
  explicit RankTree(Session& session) : session_(session) {}
  // Returns rank 0's bytes; what the others give is not looked at. `has` is called when they are there, before they go on to others.
  std::vector<std::byte> broadcast(std::vector<std::byte> bytes, const std::function<void(Bytes)>& has = {});
  // take() gives what this rank and those below it have, after merge() was called with what each of those gave. At rank 0 nothing is taken.
  void gather(const std::function<void(Bytes)>& merge, const std::function<std::vector<std::byte>()>& take);

 private:
  void send(uint32_t to, Bytes bytes);
  std::vector<std::byte> receive(uint32_t from);
  Session& session_;
};

}  // namespace dcp
