// Moves bytes of units from the ranks that see them to the rank that does the unit.
//
// The units of a rank form batches of a few units, in order, and a worker takes one batch at a time. All ranks know from the plan which
// reads a batch needs, in which order, and which rank sees which file; so for every batch each reader sends one message with all its reads
// in sequence, without a request, followed by a sequence of messages for items that must be decoded. A message moves once the receiving
// rank has posted it, which it does for the batches of its workers and as many more ahead: at most twice its workers times a batch is in
// flight to a rank, however many ranks send. Readers send in the order of batches, taking the receiving ranks in turn, and a worker posts
// all messages of its batch before it waits for one, so the earliest unfinished batch always gets its bytes.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "exec/execute.h"
#include "exec/worker.h"
#include "ranks/file_visibility.h"
#include "ranks/session.h"

namespace dcp {

// The units of each rank, in order.
using Dealing = std::vector<std::vector<UnitTask>>;
// Deals every unit to a rank that sees a file that the unit reads.
Dealing deal_to_readers(const Plan& plan, const SourceFacts& source, const FileVisibility& visibility, uint32_t world_size);
class MessagePieces;
enum class Writers : uint8_t { kRank0, kAll };

struct SharedWork {
  const Plan& plan;
  Source source;
  Dealing units;
  Writers writers = Writers::kRank0;
  unsigned workers = 1;  // workers of this rank, each with a batch
};

class Exchange : public UnitSupply {
 public:
  Exchange(Session& session, const FileVisibility& visibility, SharedWork work);
  ~Exchange() override;

  // --- the units of this rank
  uint64_t batches() const override { return batches_of(session_.rank()); }
  UnitBatch take(uint64_t batch) override;
  bool is_shared() const override { return writers_ == Writers::kAll; }
  void join(RunSums& sums, RunLosses& losses) override;

  // --- the reads of this rank for other ranks' units. Returns when all are sent.
  void serve(unsigned workers, Progress& progress, const StopFlag& stop);
  uint64_t bytes_sent() const { return sent_; }

  // Bytes of `progress` that this rank has read itself: bytes that others sent also count as read where they are used.
  uint64_t bytes_read(const Progress& progress) const { return progress.bytes_read - received_; }

  // Maximum memory of a worker: its own buffers, its current batch and a requested one.
  static uint64_t worker_bytes(const Plan& plan);

 private:
  friend class MessagePieces;
  class Sender;
  class BorrowedBuffer;
  uint64_t batches_of(uint32_t rank) const { return (dealing_[rank].size() + units_ - 1) / units_; }
  std::span<const UnitTask> units_of(uint32_t rank, uint64_t batch) const;
  std::vector<std::byte> borrow(uint64_t bytes);
  void give_back(std::vector<std::byte> buffer);

  Session& session_;
  const FileVisibility& visibility_;
  const Plan& plan_;
  const Source source_;
  const Dealing dealing_;
  const Writers writers_;
  const MaxExtents extents_;
  const uint64_t units_;  // of a batch
  const uint64_t ahead_;  // batches requested before a worker takes them
  std::mutex mutex_;      // free_
  std::vector<std::vector<std::byte>> free_;
  std::atomic<uint64_t> sent_{0}, received_{0};                   // received_: as Progress counts it
  std::mutex requests_mutex_;                                     // requested_, next_request_
  std::map<uint64_t, std::unique_ptr<MessagePieces>> requested_;  // by batch; requested, not yet taken
  uint64_t next_request_ = 0;
};

}  // namespace dcp
