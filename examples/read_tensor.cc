// read_tensor CKPT                    lists the tensors of a checkpoint
// read_tensor CKPT KEY                reads one, checks its CRC, and prints its bounds and its mean
// read_tensor CKPT KEY FIRST COUNT    the same of some of its rows: nothing else is read
#include <dcpctl/dcpctl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace {

void list(const dcpctl::Checkpoint& checkpoint) {
  for (const dcpctl::TensorInfo& t : checkpoint.tensors()) {
    std::printf("%s  %s", t.key.c_str(), t.dtype.c_str());
    for (const int64_t n : t.shape) std::printf(" %lld", static_cast<long long>(n));
    std::printf("\n");
  }
}

void print(const dcpctl::Checkpoint& checkpoint, const char* key, dcpctl::ReadOptions options) {
  std::vector<int64_t> shape = checkpoint.tensor(key).shape;
  if (!options.slice.empty()) {
    options.slice.resize(shape.size());  // all of the other dims
    shape[0] = options.slice[0].count;
  }
  const int64_t elements = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  std::vector<float> values(static_cast<size_t>(elements));
  options.dtype = "float32";  // whatever it is stored as
  checkpoint.read(key, std::as_writable_bytes(std::span(values)), options);
  if (values.empty()) return static_cast<void>(std::printf("%s: no elements\n", key));
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(elements);
  std::printf("%s: %lld elements, %g to %g, mean %g\n", key, static_cast<long long>(elements), *least, *most, mean);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argc == 4) return std::fprintf(stderr, "usage: read_tensor CKPT [KEY [FIRST COUNT]]\n"), 2;
  const dcpctl::Checkpoint checkpoint = dcpctl::open(argv[1]);
  if (argc == 2) return list(checkpoint), 0;
  dcpctl::ReadOptions options;
  if (argc > 4) options.slice = {{.start = std::atoll(argv[3]), .count = std::atoll(argv[4])}};
  print(checkpoint, argv[2], options);
} catch (const dcpctl::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  if (!error.problem().hint.empty()) std::fprintf(stderr, "hint: %s\n", error.problem().hint.c_str());
  return static_cast<int>(error.kind());
}
