// Random small checkpoints: every dtype, any tiling, and each chunk stored in a way of its own.
#pragma once

#include "catalog/tilings.h"
#include "kernels/kernels.h"

namespace dcp::test {

struct RandomOptions {
  bool quantized = false;  // such dtypes have no plain items
  bool zstd = true;
  bool safetensors_only = false;  // dtypes and shapes that safetensors has a form for
};

inline bool usable(DType dtype, const RandomOptions& o) {
  if (o.safetensors_only && facts_of(dtype).safetensors.empty()) return false;
  return facts_of(dtype).kind != DTypeKind::kQuantized || o.quantized;
}

inline DType random_dtype(Rng& rng, const RandomOptions& o) {
  for (;;) {
    const auto dtype = static_cast<DType>(rng() % static_cast<uint64_t>(DType::kCount));
    if (usable(dtype, o)) return dtype;
  }
}

// Strides of a permuted layout, sometimes with room between rows; sometimes of elements that share places (expanded, overlapping).
inline Ints random_strides(Rng& rng, const Ints& sizes) {
  std::vector<size_t> order(sizes.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (rng() % 3 != 0) std::ranges::shuffle(order, rng);
  Ints strides(sizes.size());
  int64_t step = rng() % 6 == 0 ? 2 : 1;
  const bool padded = rng() % 2 == 0, shared = rng() % 5 == 0;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = shared && rng() % 2 == 0 ? pick(rng, 0, 5) : step;
    step = step * sizes[order[i]] + (padded ? pick(rng, 0, 3) : 0);
  }
  return strides;
}

inline void store_somehow(Rng& rng, const MadeTensor& t, MadeChunk& c) {
  const auto one_in = [&](uint64_t n) { return rng() % n == 0; };
  if (one_in(6)) {
    const DType stored = random_dtype(rng, {});
    if (convertible(stored, t.dtype)) c.stored = stored;
  }
  const DTypeKind kind = facts_of(c.stored.value_or(t.dtype)).kind;
  if (one_in(3)) c.strides = random_strides(rng, c.sizes);
  if (one_in(6)) c.storage_offset = static_cast<uint64_t>(pick(rng, 1, 9));
  if (one_in(6)) c.extra_elements = static_cast<uint64_t>(pick(rng, 1, 9));
  c.big_endian = one_in(5);
  c.conj = kind == DTypeKind::kComplex && one_in(3);
  c.neg = (kind == DTypeKind::kComplex || kind == DTypeKind::kInt || kind == DTypeKind::kFloat) && one_in(5);
  c.crc = !one_in(6);
  c.file = static_cast<unsigned>(rng() % 3);
}

inline MadeTensor random_tensor(Rng& rng, const std::string& key, const RandomOptions& o) {
  MadeTensor t{.key = key, .dtype = random_dtype(rng, o), .dims = Ints(rng() % 5), .chunks = {}};
  for (int64_t& n : t.dims) n = pick(rng, rng() % 12 == 0 ? 0 : 1, t.dims.size() < 3 ? 24 : 8);
  if (o.safetensors_only && t.dtype == DType::float4_e2m1fn_x2 && t.dims.empty()) t.dims = {3};
  const bool zstd = o.zstd && rng() % 4 == 0, mixed = rng() % 4 == 0;
  for (const Box& b : random_tiling(rng, t.dims)) {
    MadeChunk c{.offsets = b.offsets, .sizes = b.sizes};
    store_somehow(rng, t, c);
    c.zstd = zstd && (!mixed || rng() % 2 == 0);
    t.chunks.push_back(std::move(c));
  }
  if (rng() % 6 == 0 && !t.dims.empty() && t.dims[0] > 0) {  // as FSDP2 leaves it where there are more ranks than rows
    MadeChunk empty{.offsets = Ints(t.dims.size(), 0), .sizes = t.dims};
    empty.offsets[0] = t.dims[0];
    empty.sizes[0] = 0;
    t.chunks.push_back(std::move(empty));
  }
  return t;
}

inline MadeCheckpoint random_checkpoint(uint64_t seed, const RandomOptions& o = {}) {
  Rng rng(seed);
  MadeCheckpoint made;
  made.seed = seed;
  made.shuffled = rng() % 2 == 0;
  const uint64_t count = 1 + rng() % 5;
  for (uint64_t i = 0; i < count; ++i) made.tensors.push_back(random_tensor(rng, "t" + std::to_string(i), o));
  return made;
}

}  // namespace dcp::test
