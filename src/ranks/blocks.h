// Output without gathering: every rank writes its own part of one shared output.
//
// The output is cut into blocks of 1 MiB of its files, and each rank owns a run of them: no two hosts write the same page, which is slow on
// some cluster file systems (Lustre, because of its locks) and goes wrong on others (NFS clients write back whole pages). A unit whose
// output lies in blocks of several ranks is done by each of them and clipped; its sums are counted by the first, its home.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "exec/worker.h"
#include "files/sink.h"
#include "plan/plan.h"
#include "ranks/exchange.h"

namespace dcp {

class Blocks {
 public:
  static constexpr uint64_t kBytes = 1 << 20;
  Blocks(const Plan& plan, uint32_t world_size, uint64_t block_bytes = kBytes);
  uint32_t owner(uint32_t file, uint64_t offset) const;
  // The bytes [first, second) of a file that a rank owns.
  std::pair<uint64_t, uint64_t> part(uint32_t rank, uint32_t file) const;

 private:
  std::vector<uint64_t> before_;  // by file: number of blocks in the files before it; plus one final entry
  uint64_t block_bytes_;
  uint64_t each_;  // blocks of one rank
};

// Deals every unit to the ranks whose blocks it writes to.
Dealing deal_by_blocks(const Plan& plan, const Catalog& catalog, const Blocks& blocks, uint32_t world_size);
// Deals every unit to rank 0.
Dealing deal_to_rank0(const Plan& plan, uint32_t world_size);

// Passes on only bytes in the blocks of one rank.
class ClippedSink : public Sink {
 public:
  ClippedSink(Sink& sink, const Blocks& blocks, uint32_t rank) : sink_(sink), blocks_(blocks), rank_(rank) {}
  void write(uint32_t file, uint64_t offset, Bytes bytes) override;
  void finish() override { sink_.finish(); }
  void commit() override { sink_.commit(); }
  void abort() noexcept override { sink_.abort(); }
  bool keeps_own_part() const override { return true; }

 private:
  Sink& sink_;
  const Blocks& blocks_;
  uint32_t rank_;
};

// The files of rank 0's output, for writing by another rank: opened, never created, truncated, renamed or removed.
class SharedFiles : public PassingSink {
 public:
  // `shared`: FileSet::shared() of rank 0. Throws io_create if a file is missing, or is a different one: by its size, or by its inode if
  // the hosts see the same inodes.
  SharedFiles(Io& io, const std::vector<std::string>& shared, const std::vector<uint64_t>& bytes, bool sync);
  void write(uint32_t file, uint64_t offset, Bytes bytes) override {
    write_all(io_, files_.at(file).get(), offset, bytes, sync_ ? Cache::kPass : Cache::kKeep);
  }
  void finish() override { finish({}); }
  void finish(const std::function<void()>& between);  // as sync_all() calls it

 private:
  Io& io_;
  bool sync_;
  std::vector<OpenFile> files_;
};

}  // namespace dcp
