// Tensors in memory, and what the library says of a call that is wrong.
#pragma once

#include <dcpctl/dcpctl.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace dcpctl::test {

using Ints = std::vector<int64_t>;

// 0, 1, 2, ... in float32, which are told apart up to 2^24.
inline std::vector<float> counted(size_t n, float first = 0) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

inline std::vector<float> read(const Checkpoint& checkpoint, const std::string& key, const ReadOptions& options, size_t elements) {
  std::vector<float> values(elements, -1);
  checkpoint.read(key, std::as_writable_bytes(std::span(values)), options);
  return values;
}
inline std::vector<float> read(const std::string& path, const std::string& key) {
  const Checkpoint checkpoint = open(path);
  return read(checkpoint, key, {}, checkpoint.tensor(key).bytes / sizeof(float));
}

// What a call throws.
inline Problem thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.problem();
  }
  return {.id = "nothing"};
}

}  // namespace dcpctl::test
