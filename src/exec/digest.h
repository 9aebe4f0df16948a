// A sink without files that computes digests of the bytes that would be written. The digest of an output is the CRC-64/XZ of its bytes, in
// whatever order they arrive.
#pragma once

#include <optional>
#include <vector>

#include "base/sums.h"
#include "files/sink.h"
#include "plan/plan.h"

namespace dcp {

class DigestSink : public Sink {
 public:
  explicit DigestSink(const Plan& plan);
  void write(uint32_t file, uint64_t offset, Bytes bytes) override;
  void finish() override {}
  void commit() override {}
  void abort() noexcept override {}

  // For joining the sums of several processes: registers are XORed, bytes added.
  struct Part {
    uint64_t bytes = 0;
    uint64_t raw = 0;
  };
  std::vector<Part> parts() const;
  void set(const std::vector<Part>& parts);

  // nullopt: some bytes are missing.
  std::optional<uint64_t> digest(uint32_t file) const;

 private:
  std::vector<uint64_t> bytes_;
  std::vector<Crc64Sum> sums_;
};

}  // namespace dcp
