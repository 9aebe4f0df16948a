// bench_casts: the float codecs on one thread beside memcpy, for each instruction set that the machine has.
//
// Rates are GB/s of bytes read and written, of the fastest of many rounds; memcpy of as many bytes runs in the same rounds, interleaved.
// `cast` is what checkpoints go through: convert, and the count of what gets lost. The values are those of trained weights: normally
// distributed, with a standard deviation of 0.02.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/kernels.h"

using namespace dcp;

namespace {

constexpr size_t kBytes = size_t{16} << 20;  // of the wider dtype: outside the second-level cache
constexpr int kRounds = 25;

struct Pair {
  DType from, to;
};
constexpr Pair kPairs[] = {
    {DType::float32, DType::bfloat16},       {DType::float32, DType::float16},         {DType::float32, DType::float8_e4m3fn},
    {DType::float32, DType::float8_e5m2},    {DType::float32, DType::float8_e4m3fnuz}, {DType::float32, DType::float8_e5m2fnuz},
    {DType::float64, DType::float32},        {DType::float64, DType::bfloat16},        {DType::bfloat16, DType::float32},
    {DType::float16, DType::float32},        {DType::float8_e4m3fn, DType::float32},   {DType::float8_e5m2, DType::float32},
    {DType::bfloat16, DType::float16},       {DType::float16, DType::bfloat16},        {DType::bfloat16, DType::float8_e4m3fn},
    {DType::float8_e4m3fn, DType::bfloat16}, {DType::float32, DType::float64},
};

using Data = std::vector<std::byte>;

template <class F>
double seconds(F f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The fastest of all rounds.
struct Best {
  double seconds = 1e9;
  void take(double s) { seconds = s < seconds ? s : seconds; }
};

std::vector<double> weights(size_t n) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(0, 0.02);
  std::vector<double> values(n);
  for (double& v : values) v = normal(random);
  return values;
}

void measure(const Pair& pair, const std::vector<double>& values, Isa best) {
  const size_t n = kBytes / std::max(bytes_of(pair.from), bytes_of(pair.to));
  Data from(n * bytes_of(pair.from)), to(n * bytes_of(pair.to));
  convert(from.data(), pair.from, reinterpret_cast<const std::byte*>(values.data()), DType::float64, n);
  const size_t moved = from.size() + to.size();
  Data copy_from(moved / 2), copy_to(moved / 2);
  Best copied;
  Best converted[3], counted[3];
  const auto levels = static_cast<size_t>(best) + 1;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t level = 0; level < levels; ++level) {
      const ConvertOptions options{.isa = static_cast<Isa>(level)};
      copied.take(seconds([&] { std::memcpy(copy_to.data(), copy_from.data(), copy_from.size()); }));
      converted[level].take(seconds([&] { convert(to.data(), pair.to, from.data(), pair.from, n, options); }));
      counted[level].take(seconds([&] { cast(to.data(), pair.to, from.data(), pair.from, n, options); }));
    }
  }
  const auto rate = [&](const Best& b) { return static_cast<double>(moved) / b.seconds / 1e9; };
  std::printf("| %-15s | %-15s | %6.1f |", facts_of(pair.from).name.data(), facts_of(pair.to).name.data(), rate(copied));
  for (size_t level = 0; level < levels; ++level)
    std::printf(" %5.1f, %5.1f (%.2f) |", rate(converted[level]), rate(counted[level]), copied.seconds / counted[level].seconds);
  std::printf("\n");
}

}  // namespace

int main() {
  constexpr const char* kNames[] = {"baseline", "AVX2", "AVX-512"};
  const Isa best = best_isa();
  std::printf("GB/s of bytes read and written, one thread: convert, cast (cast / memcpy)\n\n");
  std::printf("| %-15s | %-15s | memcpy |", "from", "to");
  for (size_t level = 0; level <= static_cast<size_t>(best); ++level) std::printf(" %-19s |", kNames[level]);
  std::printf("\n");
  const std::vector<double> values = weights(kBytes / 2);
  for (const Pair& pair : kPairs) measure(pair, values, best);
}
