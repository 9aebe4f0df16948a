#include "exec/read_back.h"

#include <algorithm>

#include "plan/plan.h"

namespace dcp {

SummedFiles::SummedFiles(FileSet& files, const std::vector<FileSpec>& specs) : files_(files), sums_(specs.size()) {
  for (const FileSpec& s : specs) bytes_.push_back(s.bytes);
}

void SummedFiles::write(uint32_t file, uint64_t offset, Bytes bytes) {
  sums_.at(file).add(crc32_raw(bytes), bytes.size(), bytes_[file] - offset - bytes.size());
  files_.write(file, offset, bytes);
}

void SummedFiles::read_back(unsigned workers, const StopFlag& stop) {
  std::vector<uint64_t> first_block{0};  // by file
  for (uint32_t f = 0; f < bytes_.size(); ++f) {
    files_.drop_cache(f);
    first_block.push_back(first_block.back() + (bytes_[f] + kPassBytes - 1) / kPassBytes);
  }
  std::vector<Crc32Sum> found(bytes_.size());
  std::vector<std::vector<std::byte>> buffers(workers);
  parallel_for(workers, first_block.back(), stop, [&](unsigned worker, uint64_t block) {
    const auto f = static_cast<uint32_t>(std::ranges::upper_bound(first_block, block) - first_block.begin() - 1);
    const uint64_t at = (block - first_block[f]) * kPassBytes;
    const uint64_t n = std::min(kPassBytes, bytes_[f] - at);
    buffers[worker].resize(kPassBytes);
    const MutableBytes bytes = MutableBytes(buffers[worker]).first(n);
    files_.read(f, at, bytes);
    found[f].add(crc32_raw(bytes), n, bytes_[f] - at - n);
  });
  for (uint32_t f = 0; f < bytes_.size(); ++f) {
    const Place place{.path = files_.name_of(f)};
    if (sums_[f].added() != bytes_[f])
      fail(ProblemId::internal, place, std::to_string(sums_[f].added()) + " bytes written", std::to_string(bytes_[f]));
    if (found[f].value(bytes_[f]) != sums_[f].value(bytes_[f])) fail(ProblemId::output_differs, place);
  }
}

}  // namespace dcp
