#include "exec/tensor_stats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "kernels/kernels.h"

namespace dcp {
namespace {

constexpr size_t kBlock = 2048;  // values in a block, which stays in the nearest cache
constexpr size_t kLanes = 8;     // sums side by side, so the order of additions is the same on every machine

double power_of_ten(int n) {
  static const std::array<double, 33> kPowers = [] {
    std::array<double, 33> p{};
    for (size_t i = 0; i < p.size(); ++i) p[i] = std::pow(10.0, TensorStats::kLowest + static_cast<int>(i));
    return p;
  }();
  return kPowers[static_cast<size_t>(n)];
}

// The magnitude is finite and not zero.
size_t decade_of(double magnitude) {
  constexpr int kMax = static_cast<int>(std::tuple_size_v<decltype(TensorStats::decades)>) - 1;
  uint64_t bits = 0;
  std::memcpy(&bits, &magnitude, sizeof bits);
  const int exponent = static_cast<int>(bits >> 52) - 1023;
  // 0.30102 is slightly below log10(2); the comparisons correct the estimate.
  int n = std::clamp(static_cast<int>(std::floor(exponent * 0.30102)) - TensorStats::kLowest, 0, kMax);
  while (n < kMax && magnitude >= power_of_ten(n + 1)) ++n;
  while (n > 0 && magnitude < power_of_ten(n)) --n;
  return static_cast<size_t>(n);
}

// Of a finite value: by its sign, exponent and the first five bits of its fraction. 0 is between the least on either side.
int32_t part_of(double value) {
  if (value == 0) return 0;
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  const auto magnitude = static_cast<int32_t>((bits & ~(uint64_t{1} << 63)) >> 47) + 1;
  return value < 0 ? -magnitude : magnitude;
}

// The magnitudes between which the values of a part lie, with the sign of the part.
std::pair<double, double> bounds_of_part(int32_t part) {
  if (part == 0) return {0, 0};
  const auto at = [&](int32_t magnitude) {
    const uint64_t bits = static_cast<uint64_t>(magnitude - 1) << 47;
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return std::isfinite(value) ? value : std::numeric_limits<double>::max();
  };
  return part > 0 ? std::pair(at(part), at(part + 1)) : std::pair(-at(-part + 1), -at(-part));
}

using Parts = std::vector<std::pair<int32_t, uint64_t>>;

Parts joined(const Parts& a, const Parts& b) {
  Parts all;
  all.reserve(a.size() + b.size());
  for (auto i = a.begin(), j = b.begin(); i != a.end() || j != b.end();) {
    if (j == b.end() || (i != a.end() && i->first < j->first)) all.push_back(*i++);
    else if (i == a.end() || j->first < i->first) all.push_back(*j++);
    else all.emplace_back(i->first, i->second + j->second), ++i, ++j;
  }
  return all;
}

// Counts parts of many values, in a table that a thread keeps.
class PartCounts {
 public:
  void add(std::span<const double> values) {
    for (const double v : values) {
      if (!(std::abs(v) <= std::numeric_limits<double>::max())) continue;
      const int32_t part = part_of(v);
      low_ = std::min(low_, part);
      high_ = std::max(high_, part);
      ++table()[static_cast<size_t>(part + kMost)];
    }
  }
  Parts take() {
    Parts parts;
    for (int32_t part = low_; part <= high_; ++part)
      if (uint64_t& n = table()[static_cast<size_t>(part + kMost)]; n > 0) parts.emplace_back(part, std::exchange(n, 0));
    return parts;
  }

 private:
  static constexpr int32_t kMost = 1 << 16;  // of exponent and fraction, and one
  static std::vector<uint64_t>& table() {
    thread_local std::vector<uint64_t> counts(2 * kMost + 1);
    return counts;
  }
  int32_t low_ = kMost, high_ = -kMost;
};

double total(const double (&lanes)[kLanes]) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

TensorStats stats_of_block(std::span<const double> values) {
  TensorStats s{.values = values.size()};
  constexpr double kLargest = std::numeric_limits<double>::max();
  double min = kLargest, max = -kLargest, sums[kLanes]{}, squares[kLanes]{};
  for (size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    const bool finite = std::abs(v) <= kLargest;
    s.nan += v != v;
    s.infinite += !finite && v == v;
    s.zero += v == 0;
    min = finite && v < min ? v : min;
    max = finite && v > max ? v : max;
    sums[i % kLanes] += finite ? v : 0;
  }
  if (s.finite() == 0) return s;
  s.min = min;
  s.max = max;
  s.mean = total(sums) / static_cast<double>(s.finite());
  for (size_t i = 0; i < values.size(); ++i) {
    const double from_mean = std::abs(values[i]) <= kLargest ? values[i] - s.mean : 0;
    squares[i % kLanes] += from_mean * from_mean;
  }
  s.deviations = total(squares);
  for (const double v : values)
    if (v != 0 && std::abs(v) <= kLargest) ++s.decades[decade_of(std::abs(v))];
  return s;
}

template <class T>
void exact_bounds(const std::byte* from, size_t count, TensorStats& s) {
  T min = std::numeric_limits<T>::max(), max = std::numeric_limits<T>::min();
  for (size_t i = 0; i < count; ++i) {
    T v;
    std::memcpy(&v, from + i * sizeof v, sizeof v);
    min = std::min(min, v);
    max = std::max(max, v);
  }
  s.min = static_cast<long double>(min);
  s.max = static_cast<long double>(max);
}

}  // namespace

double TensorStats::std() const {
  if (finite() < 2) return std::numeric_limits<double>::quiet_NaN();
  return std::sqrt(deviations / static_cast<double>(finite() - 1));
}

TensorStats& TensorStats::operator+=(const TensorStats& more) {
  const auto a = static_cast<double>(finite()), b = static_cast<double>(more.finite());
  if (more.finite() > 0) {
    min = finite() > 0 ? std::min(min, more.min) : more.min;
    max = finite() > 0 ? std::max(max, more.max) : more.max;
    // Chan, Golub and LeVeque's formula for two halves with different means.
    const double apart = more.mean - mean;
    deviations += more.deviations + apart * apart * (a * b / (a + b));
    mean = finite() > 0 ? mean + apart * (b / (a + b)) : more.mean;
  }
  parts = parts.empty() ? more.parts : joined(parts, more.parts);
  values += more.values;
  nan += more.nan;
  infinite += more.infinite;
  zero += more.zero;
  for (size_t n = 0; n < decades.size(); ++n) decades[n] += more.decades[n];
  return *this;
}

void TensorStats::settle() {
  if (is_settled || finite() == 0) return;
  is_settled = true;
  const auto low = static_cast<double>(min), high = static_cast<double>(max), count_of_steps = static_cast<double>(steps.size());
  const double wide = high / count_of_steps - low / count_of_steps;  // high - low may be more than a double can be
  uint64_t seen = 0;
  size_t next = 0;
  for (const auto& [part, count] : parts) {
    const auto [begin, end] = bounds_of_part(part);
    for (; next < kPercents.size(); ++next) {
      const double rank = kPercents[next] / 100.0 * static_cast<double>(finite());
      if (rank > static_cast<double>(seen + count)) break;
      const double share = std::max(rank - static_cast<double>(seen), 0.0) / static_cast<double>(count);
      quantiles[next] = std::clamp(begin + (end - begin) * share, low, high);
    }
    seen += count;
    const double middle = std::clamp(begin + (end - begin) / 2, low, high);
    const double step = wide > 0 ? (middle / count_of_steps - low / count_of_steps) / wide * count_of_steps : 0;
    steps[static_cast<size_t>(std::clamp(step, 0.0, count_of_steps - 1))] += count;
  }
  parts = {};
}

bool has_numbers(DType dtype) { return convertible(component_of(dtype), DType::float64); }

TensorStats stats_of(DType dtype, Bytes elements) {
  const DType part = component_of(dtype);
  const uint64_t each = bytes_of(part);
  std::array<double, kBlock> block;
  TensorStats all;
  PartCounts counts;
  for (uint64_t at = 0; at < elements.size(); at += kBlock * each) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(kBlock, (elements.size() - at) / each));
    const std::byte* from = elements.data() + at;
    convert(reinterpret_cast<std::byte*>(block.data()), DType::float64, from, part, count);
    TensorStats s = stats_of_block(std::span(block).first(count));
    counts.add(std::span(block).first(count));
    if (part == DType::int64) exact_bounds<int64_t>(from, count, s);
    if (part == DType::uint64) exact_bounds<uint64_t>(from, count, s);
    all += s;
  }
  all.parts = counts.take();
  return all;
}

StatsSink::StatsSink(const Plan& plan, std::vector<DType> dtypes, const Source& source)
    : plan_(plan), dtypes_(std::move(dtypes)), source_(source), sums_(plan.files.size()) {}

namespace {

// The unit that this thread is doing. The sink may be one that no longer exists.
thread_local std::pair<const StatsSink*, uint64_t> in_hand{nullptr, 0};

}  // namespace

UnitBatch StatsSink::take(uint64_t batch) {
  {
    const std::lock_guard lock(mutex_);
    if (in_hand.first == this) done(in_hand.second);
    doing_[batch];
  }
  in_hand = {this, batch};
  return {.units = {{.ordinal = batch}}, .pieces = std::make_unique<FilePieces>(source_.files)};
}

void StatsSink::write(uint32_t file, uint64_t, Bytes bytes) {
  const TensorStats part = stats_of(dtypes_[file], bytes);
  const std::lock_guard lock(mutex_);
  Parts& parts = doing_[in_hand.second];
  if (parts.empty() || parts.back().first != file) parts.emplace_back(file, part);
  else parts.back().second += part;
}

void StatsSink::done(uint64_t unit) {
  const auto taken = doing_.find(unit);
  if (taken == doing_.end()) return;
  done_.insert(doing_.extract(taken));
  for (auto first = done_.begin(); first != done_.end() && first->first == next_; first = done_.erase(first), ++next_)
    for (const auto& [file, part] : first->second) add(file, part);
}

// Units go through files in their order, so what lies before the current one is complete.
void StatsSink::add(uint32_t file, const TensorStats& part) {
  if (file != current_) sums_[std::exchange(current_, file)].settle();
  sums_[file] += part;
}

void StatsSink::finish() {
  const std::lock_guard lock(mutex_);
  while (!doing_.empty()) done(doing_.begin()->first);
  in_hand = {};
  if (!sums_.empty()) sums_[current_].settle();
}

}  // namespace dcp
