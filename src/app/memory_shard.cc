#include "app/memory_shard.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "kernels/kernels.h"

namespace dcp {
namespace {

[[noreturn]] void refuse(const auto& given, std::string got, std::string expected) {
  fail(ProblemId::usage, {.tensor = given.key}, std::move(got), std::move(expected));
}

DType checked_dtype(const MemoryShard& shard) {
  const auto dtype = dtype_named(shard.dtype);
  if (!dtype) refuse(shard, "dtype '" + shard.dtype + "'", "a name of torch's without 'torch.', such as float32");
  if (facts_of(*dtype).kind == DTypeKind::kQuantized) refuse(shard, "dtype " + shard.dtype, "one that is not quantized");
  return *dtype;
}

// Of a shard or an object.
void check_path(auto& given) {
  if (given.path.empty()) given.path.push_back(given.key);
  if (const std::string key = joined(given.path, "."); key != given.key)
    refuse(given, "path '" + key + "'", "one that joined with dots is the key");
  if (given.key.empty() || !is_pickled_text(given.key)) refuse(given, given.key.empty() ? "no key" : "a key that is not UTF-8", "a name");
}

void check_box(const MemoryShard& shard) {
  const size_t rank = shard.shape.size();
  if (rank > kMaxRank) refuse(shard, std::to_string(rank) + " dims", std::to_string(kMaxRank) + " at most");
  for (const auto& [name, numbers] : {std::pair("offsets", &shard.offsets), {"sizes", &shard.sizes}, {"strides", &shard.strides}})
    if (numbers->size() != rank)
      refuse(shard, name + (" " + shape_text(*numbers)), "one for each dim of the shape " + shape_text(shard.shape));
  for (size_t d = 0; d < rank; ++d) {
    const int64_t offset = shard.offsets[d], size = shard.sizes[d], all = shard.shape[d];
    if (all < 0) refuse(shard, "shape " + shape_text(shard.shape), "sizes of 0 or more");
    if (offset < 0 || size < 0 || offset > all || size > all - offset)
      refuse(shard, "a box at " + shape_text(shard.offsets) + " of " + shape_text(shard.sizes),
             "one inside the shape " + shape_text(shard.shape));
  }
}

uint64_t checked_bytes(const MemoryShard& shard, const std::vector<int64_t>& sizes, DType dtype) {
  uint64_t bytes = bytes_of(dtype);
  for (const int64_t n : sizes) bytes = mul_or_fail(bytes, static_cast<uint64_t>(n), {.tensor = shard.key});
  return bytes;
}

// What strides step over may be anything where there is nothing to step to.
bool is_dense(Dims sizes, Dims strides) {
  int64_t next = 1;
  for (size_t d = sizes.size(); d-- > 0; next *= sizes[d])
    if (sizes[d] != 1 && strides[d] != next) return false;
  return true;
}

// Walks the dims from `d` on: those that are dense together, and fit, are one piece.
class Walk {
 public:
  using Piece = std::function<void(const std::byte* at, Dims sizes, Dims strides)>;
  Walk(const CheckedShard& shard, uint64_t max, bool dense, const Piece& piece)
      : s_(shard.shard), element_(bytes_of(shard.dtype)), max_(std::max<uint64_t>(max, element_)), dense_(dense), piece_(piece) {}

  void dims(size_t d, const std::byte* at) const {
    const Dims sizes = Dims(s_.sizes).subspan(d), strides = Dims(s_.strides).subspan(d);
    if (fits(sizes, strides)) return piece_(at, sizes, strides);
    // As many indices of this dim at once as make a piece.
    const Dims inner = sizes.subspan(1);
    const bool whole = fits(inner, strides.subspan(1));
    const uint64_t row = volume(inner) * element_;
    const bool together = whole && (!dense_ || is_dense(sizes, strides));
    const int64_t step = together ? std::max<int64_t>(1, static_cast<int64_t>(max_ / row)) : 1;
    std::vector<int64_t> part(sizes.begin(), sizes.end());
    for (int64_t i = 0; i < sizes[0]; i += step) {
      const std::byte* from = at + i * strides[0] * static_cast<int64_t>(element_);
      part[0] = std::min(step, sizes[0] - i);
      if (together) piece_(from, part, strides);
      else dims(d + 1, from);
    }
  }

 private:
  bool fits(Dims sizes, Dims strides) const { return volume(sizes) * element_ <= max_ && (!dense_ || is_dense(sizes, strides)); }
  const MemoryShard& s_;
  const uint64_t element_, max_;
  const bool dense_;
  const Piece& piece_;
};

}  // namespace

CheckedShard checked(const MemoryShard& given) {
  CheckedShard c{.dtype = checked_dtype(given), .bytes = 0, .is_dense = false, .shard = given};
  MemoryShard& s = c.shard;
  if (s.offsets.empty()) s.offsets.resize(s.shape.size());
  if (s.sizes.empty()) s.sizes = s.shape;
  const bool row_major_strides = s.strides.empty();
  if (row_major_strides) s.strides.resize(s.shape.size());
  check_path(s);
  check_box(s);
  checked_bytes(s, s.shape, c.dtype);
  c.bytes = checked_bytes(s, s.sizes, c.dtype);
  if (row_major_strides) {
    const Numbers strides = row_major(s.sizes);
    std::copy_n(strides.begin(), s.strides.size(), s.strides.begin());
  }
  if (c.bytes > 0 && s.data == nullptr) refuse(s, "no data", "where the elements are");
  c.is_dense = is_dense(s.sizes, s.strides);
  return c;
}

MemoryObject checked(const MemoryObject& given) {
  MemoryObject object = given;
  check_path(object);
  if (object.bytes.empty() || object.bytes.data() == nullptr) refuse(object, "no data", "a file of torch.save");
  return object;
}

void each_run(const CheckedShard& shard, uint64_t max, const std::function<void(Bytes)>& fn) {
  if (shard.bytes == 0) return;
  const Walk::Piece piece = [&](const std::byte* at, Dims sizes, Dims) { fn({at, volume(sizes) * bytes_of(shard.dtype)}); };
  Walk(shard, max, true, piece).dims(0, shard.shard.data);
}

void each_block(const CheckedShard& shard, uint64_t block, const std::function<void(Bytes)>& fn) {
  if (shard.is_dense) return each_run(shard, block, fn);
  if (shard.bytes == 0) return;
  std::vector<std::byte> together(block);
  const Walk::Piece piece = [&](const std::byte* at, Dims sizes, Dims strides) {
    const Numbers to = row_major(sizes);
    copy_strided(together.data(), std::span(to).first(sizes.size()), at, strides, sizes, static_cast<unsigned>(bytes_of(shard.dtype)));
    fn(Bytes(together).first(volume(sizes) * bytes_of(shard.dtype)));
  };
  Walk(shard, block, false, piece).dims(0, shard.shard.data);
}

}  // namespace dcp
