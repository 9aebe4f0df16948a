// Where bytes go: a set of files, and how to commit all or leave nothing behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/io.h"

namespace dcp {

// Every byte of every file is written exactly once, in any order, from any thread. Then finish, commit; or abort. The destructor aborts
// what was not committed.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(uint32_t file, uint64_t offset, Bytes bytes) = 0;
  virtual void finish() = 0;  // all bytes are there: sync them
  virtual void commit() = 0;  // make them appear under the final name
  virtual void abort() noexcept = 0;
  // Several ranks may write the same bytes: it lets through what lies in this rank's part of the output, which no other rank's does.
  virtual bool keeps_own_part() const { return false; }
};

// Of a run whose bytes are only to be read: compared with their CRCs, or seen where they pass.
class NoSink final : public Sink {
 public:
  void write(uint32_t, uint64_t, Bytes) override {}
  void finish() override {}
  void commit() override {}
  void abort() noexcept override {}
};

}  // namespace dcp
