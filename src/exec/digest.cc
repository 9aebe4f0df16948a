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

std::vector<DigestSink::Part> DigestSink::parts() const {
  std::vector<Part> all;
  // The value of no bytes is the register itself.
  for (const Crc64Sum& s : sums_) all.push_back({.bytes = s.added(), .raw = s.value(0)});
  return all;
}

void DigestSink::set(const std::vector<Part>& parts) {
  for (size_t f = 0; f < sums_.size(); ++f) sums_[f].add(parts.at(f).raw ^ sums_[f].value(0), parts[f].bytes - sums_[f].added(), 0);
}

}  // namespace dcp
