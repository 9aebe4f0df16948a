// Reads tensors of one checkpoint into the caller's memory, one after another or from several threads at once.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "app/source.h"
#include "catalog/data_files.h"
#include "files/sink.h"
#include "items/resolve.h"
#include "maps/subscript.h"
#include "select/select.h"

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

struct ReaderRequest {
  SourceRequest source;
  uint64_t extra_memory = 0;  // bytes, on top of what the process holds when a call begins
  unsigned threads = 0;       // 0: the default
};

class Reader {
 public:
  // Reads the metadata. Throws what opening throws.
  Reader(ReaderRequest request, World& world);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const Catalog& catalog() const { return opened_->catalog; }

  struct Part {
    TensorId tensor = 0;
    std::optional<std::vector<SliceAxis>> axes;  // nullopt: the whole tensor, with its CRCs checked
    DtypeOptions dtypes;
  };
  // Reads its elements, row-major and little-endian. Callable from any thread. Throws usage for a buffer of another size,
  // cast_opaque, the first CRC that differs, and what resolving and reading throw.
  void read(const Part& part, MutableBytes to);

 private:
  const ReaderRequest request_;
  World& world_;
  FrozenCatalog opened_;
  std::optional<DataFiles> files_;
};

}  // namespace dcp
