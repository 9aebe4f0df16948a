// Digests for manifests: of the bytes that an output would have, and of whole files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/sums.h"
#include "base/workers.h"
#include "catalog/data_files.h"
#include "exec/execute.h"
#include "files/sink.h"
#include "plan/plan.h"

namespace dcp {

class DigestSink : public PassingSink {
 public:
  explicit DigestSink(const Plan& plan);
  void write(uint32_t file, uint64_t offset, Bytes bytes) override;

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

struct FileSum {
  std::string name;  // in the checkpoint's folder
  uint64_t bytes = 0;
  std::string xxh3_128;  // hexadecimal, as xxh128sum prints it
};

// Digests of the checkpoint's data files and metadata, sorted by name. Each file is read from front to back, several at once: this digest
// cannot be joined from parts.
std::vector<FileSum> sum_files(DataFiles& files, FollowLinks links, unsigned workers, const Watch& watch);

}  // namespace dcp
