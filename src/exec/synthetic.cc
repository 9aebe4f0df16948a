#include "exec/synthetic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "exec/dcp_folder.h"

namespace dcp {
namespace {

// splitmix64: 8 bytes of noise for a counter.
uint64_t noise(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Sets the exponent of 1.0 in each float of 8 bytes of noise, and keeps sign and mantissa. Other dtypes stay noise.
struct Mask {
  uint64_t keep = ~uint64_t{0};
  uint64_t set = 0;
};
Mask mask_of(DType dtype) {
  switch (dtype) {
    case DType::float64: return {0x800FFFFFFFFFFFFF, 0x3FF0000000000000};
    case DType::float32: return {0x807FFFFF807FFFFF, 0x3F8000003F800000};
    case DType::bfloat16: return {0x807F807F807F807F, 0x3F803F803F803F80};
    case DType::float16: return {0x83FF83FF83FF83FF, 0x3C003C003C003C00};
    default: return {};
  }
}

class Generator {
 public:
  explicit Generator(const SyntheticSpec& spec) : spec_(spec), element_(bytes_of(spec.dtype)) {
    const uint64_t elements = spec.bytes / std::max<uint64_t>(spec.tensors, 1) / element_;
    if (elements == 0 || spec.tensors == 0 || spec.world_size == 0)
      fail(ProblemId::usage, {}, std::to_string(spec.bytes) + " bytes in " + std::to_string(spec.tensors) + " tensors",
           "at least one element each");
    columns_ = std::bit_floor(std::min<uint64_t>(static_cast<uint64_t>(std::sqrt(static_cast<double>(elements))), 8192));
    rows_ = elements / columns_;
  }

  SyntheticReport write(Io& io, const std::string& out, const FolderOptions& options, const StopFlag& stop) {
    std::vector<FolderTensor> tensors;
    for (uint32_t t = 0; t < spec_.tensors; ++t) {
      tensors.push_back(
          {"model.layers." + std::to_string(t) + ".weight", spec_.dtype, {static_cast<int64_t>(rows_), static_cast<int64_t>(columns_)}});
      chunks(t);
    }
    const DcpFolder folder(std::move(tensors), chunks_, spec_.world_size);
    folder.write(io, out, options, stop, [&](size_t chunk, const DcpFolder::Emit& emit) { payload(chunks_[chunk], emit); });
    return {.tensor_bytes = folder.tensor_bytes(), .file_bytes = folder.file_bytes(), .items = folder.items()};
  }

 private:
  // torch.chunk along the sharded dim: ceil, the last ones shorter; ranks that would get nothing are left out.
  void chunks(uint32_t t) {
    const bool whole = spec_.layout == SyntheticSpec::Layout::kWhole;
    const size_t dim = spec_.layout == SyntheticSpec::Layout::kShard1 ? 1 : 0;
    const std::vector<int64_t> dims{static_cast<int64_t>(rows_), static_cast<int64_t>(columns_)};
    const int64_t world = whole ? 1 : spec_.world_size;
    const int64_t step = (dims[dim] + world - 1) / world;
    for (int64_t at = 0; at < dims[dim]; at += step) {
      FolderChunk c{.tensor = t, .rank = whole ? t % spec_.world_size : static_cast<uint32_t>(at / step), .offsets = {0, 0}, .sizes = dims};
      c.offsets[dim] = at;
      c.sizes[dim] = std::min(step, dims[dim] - at);
      chunks_.push_back(std::move(c));
    }
  }

  // Rows of the chunk, in blocks of about 1 MiB.
  void payload(const FolderChunk& c, const DcpFolder::Emit& emit) const {
    const auto columns = static_cast<uint64_t>(c.sizes[1]), chunk_rows = static_cast<uint64_t>(c.sizes[0]);
    const uint64_t rows_each = std::max<uint64_t>((1 << 20) / (columns * element_), 1);
    std::vector<std::byte> block(rows_each * columns * element_);
    for (uint64_t row = 0; row < chunk_rows; row += rows_each) {
      const uint64_t rows = std::min(rows_each, chunk_rows - row);
      for (uint64_t r = 0; r < rows; ++r) {
        const uint64_t first = (static_cast<uint64_t>(c.offsets[0]) + row + r) * columns_ + static_cast<uint64_t>(c.offsets[1]);
        synthetic_values(MutableBytes(block).subspan(r * columns * element_, columns * element_), spec_.dtype, spec_.seed, c.tensor, first);
      }
      emit(Bytes(block).first(rows * columns * element_));
    }
  }

  const SyntheticSpec& spec_;
  uint64_t element_;
  uint64_t rows_ = 0, columns_ = 0;
  std::vector<FolderChunk> chunks_;
};

}  // namespace

void synthetic_values(MutableBytes to, DType dtype, uint64_t seed, uint32_t tensor, uint64_t first) {
  const Mask mask = mask_of(dtype);
  const uint64_t stream = noise(seed ^ (uint64_t{tensor} << 32));
  uint64_t byte = first * bytes_of(dtype);  // of the tensor; a block of 8 bytes of noise holds several elements
  for (std::byte* at = to.data(); at < to.data() + to.size();) {
    const uint64_t value = (noise(stream + byte / 8) & mask.keep) | mask.set;
    const uint64_t skip = byte % 8, n = std::min<uint64_t>(8 - skip, static_cast<uint64_t>(to.data() + to.size() - at));
    std::memcpy(at, reinterpret_cast<const std::byte*>(&value) + skip, n);
    at += n;
    byte += n;
  }
}

SyntheticReport write_synthetic(Io& io, const std::string& out, const SyntheticSpec& spec, const FolderOptions& options,
                                const StopFlag& stop) {
  return Generator(spec).write(io, out, options, stop);
}

}  // namespace dcp
