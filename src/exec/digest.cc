#include "exec/digest.h"

namespace dcp {

DigestSink::DigestSink(const Plan& plan) : sums_(plan.files.size()) {
  bytes_.reserve(plan.files.size());
  for (const OutputFile& f : plan.files) bytes_.push_back(f.bytes);
}

void DigestSink::write(uint32_t file, uint64_t offset, Bytes bytes) {
  sums_.at(file).add(crc64_raw(bytes), bytes.size(), bytes_[file] - offset - bytes.size());
}

std::optional<uint64_t> DigestSink::digest(uint32_t file) const {
  if (sums_[file].added() != bytes_[file]) return std::nullopt;
  return sums_[file].value(bytes_[file]);
}

}  // namespace dcp
