// Random index maps over a random checkpoint, and what they mean, one element at a time.
#pragma once

#include <numeric>

#include "catalog/made_model.h"
#include "catalog/random_checkpoint.h"
#include "maps/index_map.h"

namespace dcp::test {

struct RandomMap {
  MadeCheckpoint made;
  std::vector<IndexMap> maps;

  // The target's elements, row-major, in its dtype.
  std::string model(const IndexMap& m) const {
    const uint64_t element = bytes_of(m.dtype);
    std::string out(volume(m.shape) * element, '?');
    const Ints strides = row_major_strides(m.shape);
    for (const IndexBlock& b : m.blocks) {
      const bool zeros = b.source == IndexBlock::kZeros;
      const std::string source = zeros ? std::string() : model_bytes(made.tensors[b.source]);
      const Ints source_strides = zeros ? Ints() : row_major_strides(made.tensors[b.source].dims);
      Ints sizes;
      for (const IndexAxis& a : b.axes) sizes.push_back(a.size);
      for_each_index(sizes, [&](const Ints& index) {
        Ints to = b.target_at, from = b.source_at;
        for (size_t a = 0; a < index.size(); ++a) {
          to[b.axes[a].target_dim] += index[a] * b.axes[a].target_step;
          if (!zeros) from[b.axes[a].source_dim] += index[a] * b.axes[a].source_step;
        }
        const auto at = [](const Ints& i, const Ints& s) {
          return static_cast<uint64_t>(std::inner_product(i.begin(), i.end(), s.begin(), int64_t{0}));
        };
        out.replace(at(to, strides) * element, element,
                    zeros ? std::string(element, '\0') : source.substr(at(from, source_strides) * element, element));
      });
    }
    return out;
  }
};

// Axes dealt to dims at random, in a random order; sets dim and step of each by `member`s, and returns the dims.
inline Ints deal_axes(Rng& rng, std::vector<IndexAxis*> axes, uint32_t IndexAxis::* dim, int64_t IndexAxis::* step) {
  std::ranges::shuffle(axes, rng);
  Ints dims;
  for (IndexAxis* a : axes) {
    if (dims.empty() || rng() % 5 < 3) dims.push_back(1);
    a->*dim = static_cast<uint32_t>(dims.size() - 1);
    a->*step = dims.back();
    dims.back() *= a->size;
  }
  return dims;
}

class RandomMapMaker {
 public:
  RandomMapMaker(uint64_t seed, const RandomOptions& o) : rng_(seed), options_(o) {
    out_.made.seed = seed;
    out_.made.shuffled = rng_() % 2 == 0;
    for (uint64_t n = 1 + rng_() % 3; n > 0; --n) target();
    for (MadeTensor& t : out_.made.tensors) store(t);
  }
  RandomMap take() { return std::move(out_); }

 private:
  // [outer (a + b) inner] and so on: axes that all parts share, and one dim that is a sum of parts.
  void target() {
    IndexMap m{.key = "m" + std::to_string(names_++), .shape = {}, .blocks = {}};
    do m.dtype = random_dtype(rng_, options_);
    while (m.dtype == DType::float4_e2m1fn_x2);  // its last dim is packed
    std::vector<IndexAxis> common(rng_() % 5);
    for (IndexAxis& a : common) a.size = pick(rng_, 1, 4);
    const size_t parts = rng_() % 2 == 0 ? 1 : 1 + rng_() % 3;
    std::vector<std::vector<IndexAxis>> of_part(parts);
    IndexAxis sum{.size = 0};
    Ints part_at;
    for (auto& axes : of_part) {
      axes.resize(rng_() % 3);
      int64_t size = 1;
      for (IndexAxis& a : axes) a.size = pick(rng_, 1, 4);
      for (size_t a = axes.size(); a-- > 0; size *= axes[a].size) axes[a].target_step = size;
      part_at.push_back(sum.size);
      sum.size += size;
    }
    std::vector<IndexAxis*> dealt{&sum};
    for (IndexAxis& a : common) dealt.push_back(&a);
    m.shape = deal_axes(rng_, dealt, &IndexAxis::target_dim, &IndexAxis::target_step);
    for (size_t p = 0; p < parts; ++p) {
      IndexBlock b{.target_at = Ints(m.shape.size(), 0), .source_at = {}, .axes = common};
      b.target_at[sum.target_dim] = part_at[p] * sum.target_step;
      for (IndexAxis a : of_part[p]) {
        a.target_dim = sum.target_dim;
        a.target_step *= sum.target_step;
        b.axes.push_back(a);
      }
      parts_to_blocks(m, b);
    }
    const bool again = rng_() % 6 == 0;
    out_.maps.push_back(m);
    if (!again) return;
    m.key += ".tied";  // the same elements once more
    out_.maps.push_back(m);
  }

  // A part of the target is padding, or comes from one tensor, or, along one of its axes, from a tensor for each index.
  void parts_to_blocks(IndexMap& m, const IndexBlock& part) {
    if (rng_() % 8 == 0) {
      m.blocks.push_back(part);
      return;
    }
    if (!part.axes.empty() && rng_() % 4 == 0) {
      const size_t numbered = rng_() % part.axes.size();
      for (int64_t i = 0; i < part.axes[numbered].size; ++i) {
        IndexBlock b = part;
        b.target_at[b.axes[numbered].target_dim] += i * b.axes[numbered].target_step;
        b.axes.erase(b.axes.begin() + static_cast<int64_t>(numbered));
        from_source(m, b);
      }
      return;
    }
    from_source(m, part);
  }

  // A new source that has the block's elements, and maybe more: another axis, of which the block takes one index (other targets may take the
  // others), and room before and after.
  void from_source(IndexMap& m, IndexBlock b) {
    std::vector<IndexAxis> axes = b.axes;
    const bool stacked = rng_() % 4 == 0;
    const int64_t stack = pick(rng_, 1, 3);
    if (stacked) axes.push_back({.size = stack});
    std::vector<IndexAxis*> dealt;
    for (IndexAxis& a : axes) dealt.push_back(&a);
    Ints dims = deal_axes(rng_, dealt, &IndexAxis::source_dim, &IndexAxis::source_step);
    b.source_at = Ints(dims.size(), 0);
    b.source = static_cast<uint32_t>(out_.made.tensors.size());
    std::copy_n(axes.begin(), b.axes.size(), b.axes.begin());
    for (size_t d = 0; d < dims.size(); ++d) {
      if (rng_() % 8 != 0) continue;
      b.source_at[d] += pick(rng_, 0, 2);
      dims[d] += b.source_at[d] + pick(rng_, 0, 2);
    }
    if (stacked) {
      const IndexAxis s = axes.back();
      for (int64_t i = 0; i < stack; ++i) {
        IndexBlock one = b;
        one.source_at[s.source_dim] += i * s.source_step;
        if (i == 0) m.blocks.push_back(one);
        else if (rng_() % 4 != 0) alone(m, one);
      }
    } else {
      m.blocks.push_back(b);
    }
    out_.made.tensors.push_back({.key = "t" + std::to_string(out_.made.tensors.size()), .dtype = m.dtype, .dims = dims, .chunks = {}});
  }

  // A target that has this block's elements and no others.
  void alone(const IndexMap& like, IndexBlock b) {
    IndexMap m{.key = "m" + std::to_string(names_++), .dtype = like.dtype, .shape = {}, .blocks = {}};
    std::vector<IndexAxis*> dealt;
    for (IndexAxis& a : b.axes) dealt.push_back(&a);
    m.shape = deal_axes(rng_, dealt, &IndexAxis::target_dim, &IndexAxis::target_step);
    b.target_at = Ints(m.shape.size(), 0);
    m.blocks.push_back(b);
    out_.maps.push_back(m);
  }

  void store(MadeTensor& t) {
    const bool zstd = options_.zstd && rng_() % 6 == 0;
    for (const Box& box : random_tiling(rng_, t.dims)) {
      MadeChunk c{.offsets = box.offsets, .sizes = box.sizes};
      if (rng_() % 2 == 0) store_somehow(rng_, t, c);
      c.file = static_cast<unsigned>(rng_() % 3);
      c.zstd = zstd && rng_() % 4 != 0;
      t.chunks.push_back(std::move(c));
    }
  }

  Rng rng_;
  int names_ = 0;
  const RandomOptions options_;
  RandomMap out_;
};

inline RandomMap random_map(uint64_t seed, const RandomOptions& o = {}) { return RandomMapMaker(seed, o).take(); }

}  // namespace dcp::test
