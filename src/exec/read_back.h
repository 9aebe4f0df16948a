// Reads the output back before it appears, and compares its sums with those of the written bytes.
#pragma once

#include <vector>

#include "base/sums.h"
#include "base/workers.h"
#include "files/file_set.h"
#include "files/sink.h"

namespace dcp {

// A sink that passes bytes to a FileSet and sums them by file.
class SummedFiles : public Sink {
 public:
  // `specs`: what `files` was made with.
  SummedFiles(FileSet& files, const std::vector<FileSpec>& specs);
  void write(uint32_t file, uint64_t offset, Bytes bytes) override;
  void finish() override { files_.finish(); }
  void commit() override { files_.commit(); }
  void abort() noexcept override { files_.abort(); }

  // Call after finish: reads every file back, with its cached pages dropped. Throws output_differs.
  void read_back(unsigned workers, const StopFlag& stop);

 private:
  FileSet& files_;
  std::vector<uint64_t> bytes_;
  std::vector<Crc32Sum> sums_;
};

}  // namespace dcp
