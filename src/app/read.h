// Reads tensors of one checkpoint into the caller's memory, one after another or from several threads at once.
#pragma once

#include <optional>
#include <vector>

#include "app/stages.h"
#include "files/sink.h"

namespace dcp {

// A sink for plans with one file: writes to a buffer.
class BufferSink final : public Sink {
 public:
  explicit BufferSink(MutableBytes to) : to_(to) {}
  void write(uint32_t, uint64_t offset, Bytes bytes) override;
  void finish() override {}
  void commit() override {}
  void abort() noexcept override {}

 private:
  MutableBytes to_;
};

struct CheckpointReaderOptions {
  SourceRequest source;
  uint64_t extra_memory = 0;  // bytes, on top of what the process holds when a call begins
  unsigned threads = 0;       // 0: the default
};

class CheckpointReader {
 public:
  // Reads the metadata. Throws what opening throws.
  CheckpointReader(const CheckpointReaderOptions& options, World& world);

  const Catalog& catalog() const { return opened_.catalog(); }

  struct Request {
    TensorId tensor = 0;
    std::optional<std::vector<SliceAxis>> axes;  // nullopt: the whole tensor, with its CRCs checked
    DtypeOptions dtypes;
  };
  // Reads its elements, row-major and little-endian. Callable from any thread. Throws usage for a buffer of another size,
  // cast_opaque, the first CRC that differs, and what resolving and reading throw.
  void read(const Request& request, MutableBytes to);

 private:
  uint64_t cap() const { return peak_rss_bytes() + extra_memory_; }
  const uint64_t extra_memory_;
  World& world_;
  const Opened opened_;
};

}  // namespace dcp
