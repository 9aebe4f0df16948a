// All units of a plan, with the files as their source: what a unit of boxes reads close together in a file is one read.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "exec/pieces.h"
#include "exec/unit_walk.h"

namespace dcp {

class JoinedReads final : public UnitSupply {
 public:
  // All must outlive it.
  JoinedReads(const Plan& plan, const Source& source) : plan_(plan), source_(source), extents_(plan, source.catalog) {}
  uint64_t batches() const override { return plan_.units; }
  UnitBatch take(uint64_t batch) override;
  uint64_t bytes_between() const { return between_; }  // that were read because they lie between others

 private:
  class Pieces;
  using Buffer = std::vector<std::byte>;
  Buffer take_buffer();
  void give_back(Buffer buffer);

  const Plan& plan_;
  const Source source_;
  const MaxExtents extents_;
  std::atomic<uint64_t> between_{0};
  std::mutex mutex_;
  std::vector<Buffer> free_;  // of units that are done
  size_t buffers_ = 0;
};

}  // namespace dcp
