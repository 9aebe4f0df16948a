// Where bytes go: a set of files, and how to commit all or leave nothing behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/io.h"

namespace dcp {

// Every byte of every file is written exactly once, in any order, from any thread. Then comes finish() and commit(), or abort(). The
// destructor aborts unless committed.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(uint32_t file, uint64_t offset, Bytes bytes) = 0;
  // Where these bytes of a file are in memory: whoever has made them there need not write them. Empty: they are not, or not as one run.
  virtual MutableBytes memory(uint32_t /*file*/, uint64_t /*offset*/, uint64_t /*bytes*/) { return {}; }
  virtual void finish() = 0;  // all bytes are there: sync them
  virtual void commit() = 0;  // make them appear under the final name
  virtual void abort() noexcept = 0;
  // Several ranks may write the same bytes: true if this sink keeps only those in this rank's part of the output, and no other rank's sink
  // does.
  virtual bool keeps_own_part() const { return false; }
};

// Has nothing to commit. By itself it is for runs that only read, to check CRCs.
class PassingSink : public Sink {
 public:
  void write(uint32_t, uint64_t, Bytes) override {}
  void finish() override {}
  void commit() override {}
  void abort() noexcept override {}
};

}  // namespace dcp
