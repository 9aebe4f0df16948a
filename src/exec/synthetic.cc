#include "exec/synthetic.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <deque>

#include "base/checked.h"
#include "base/sums.h"
#include "exec/file_set.h"
#include "format/dcp_metadata_writer.h"
#include "format/torch_item_write.h"

namespace dcp {
namespace {

// splitmix64: 8 bytes of noise for a counter.
uint64_t noise(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Keeps sign and mantissa and sets the exponent of 1.0, in each element of 8 bytes of noise. Other dtypes stay noise.
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
  Generator(const SyntheticSpec& spec) : spec_(spec), element_(bytes_of(spec.dtype)), mask_(mask_of(spec.dtype)) {
    const uint64_t elements = spec.bytes / std::max<uint64_t>(spec.tensors, 1) / element_;
    if (elements == 0 || spec.tensors == 0 || spec.world_size == 0)
      fail(ProblemId::usage, {}, std::to_string(spec.bytes) + " bytes in " + std::to_string(spec.tensors) + " tensors", "at least one element each");
    columns_ = std::bit_floor(std::min<uint64_t>(static_cast<uint64_t>(std::sqrt(static_cast<double>(elements))), 8192));
    rows_ = elements / columns_;
    lay_out();
  }

  SyntheticReport write(Io& io, const std::string& out, unsigned workers, Replace replace, const StopFlag& stop) {
    std::string metadata = write_dcp_metadata(content_);
    std::vector<FileSpec> specs;
    for (size_t f = 0; f < file_bytes_.size(); ++f) specs.push_back({std::string(content_.files[f]), file_bytes_[f]});
    specs.push_back({".metadata", metadata.size()});
    SyntheticReport report{.tensor_bytes = rows_ * columns_ * element_ * spec_.tensors, .items = items_.size()};
    for (const FileSpec& s : specs) report.file_bytes += s.bytes;
    FileSet sink(io, out, specs, {.folder = true, .replace = replace, .sync = false});
    parallel_for(workers, items_.size(), stop, [&](unsigned, uint64_t n) { item(items_[n], sink); });
    sink.write(narrow<uint32_t>(specs.size() - 1), 0, as_bytes(metadata));
    sink.finish();
    sink.commit();
    return report;
  }

 private:
  struct Item {
    uint32_t tensor = 0, file = 0;
    uint64_t file_offset = 0;
    std::array<int64_t, 2> offsets{}, sizes{};
  };

  std::string_view hold(std::string text) { return texts_.emplace_back(std::move(text)); }

  // torch.chunk along the sharded dim: ceil, the last ones shorter; ranks that would get nothing are left out.
  void lay_out() {
    for (uint32_t r = 0; r < spec_.world_size; ++r) content_.files.push_back(hold("__" + std::to_string(r) + "_0.distcp"));
    file_bytes_.assign(spec_.world_size, 0);
    content_.transforms.emplace_back();
    content_.has_planner_data = true;
    const std::string_view model = hold("model");
    for (uint32_t t = 0; t < spec_.tensors; ++t) {
      const std::string_view key = hold("model.layers." + std::to_string(t) + ".weight");
      content_.order.push_back(t);
      content_.tensors.push_back({.key = key, .dtype = spec_.dtype, .dtype_name = facts_of(spec_.dtype).name, .requires_grad = true, .rank = 2,
                                  .dims_at = content_.ints.size(), .first_chunk = content_.chunks.size(), .chunk_count = 0});
      content_.ints.insert(content_.ints.end(), {static_cast<int64_t>(rows_), static_cast<int64_t>(columns_)});
      content_.paths.push_back({.key = key, .first = content_.path_elements.size(), .count = 2});
      content_.path_elements.push_back({.name = model});
      content_.path_elements.push_back({.name = key.substr(model.size() + 1)});
      chunks(t, key);
    }
  }

  void chunks(uint32_t t, std::string_view key) {
    const bool whole = spec_.layout == SyntheticSpec::Layout::kWhole;
    const size_t dim = spec_.layout == SyntheticSpec::Layout::kShard1 ? 1 : 0;
    const std::array<int64_t, 2> dims{static_cast<int64_t>(rows_), static_cast<int64_t>(columns_)};
    const int64_t world = whole ? 1 : spec_.world_size;
    const int64_t step = (dims[dim] + world - 1) / world;
    for (int64_t at = 0; at < dims[dim]; at += step) {
      Item i{.tensor = t, .file = whole ? t % spec_.world_size : static_cast<uint32_t>(at / step), .sizes = dims};
      i.offsets[dim] = at;
      i.sizes[dim] = std::min(step, dims[dim] - at);
      i.file_offset = file_bytes_[i.file];
      const uint64_t bytes = static_cast<uint64_t>(i.sizes[0] * i.sizes[1]) * element_;
      const uint64_t length = tensor_item_layout(tensor_item_pickle(spec_.dtype, i.sizes).size(), bytes).total_bytes();
      content_.chunks.push_back({.offsets_at = content_.ints.size(), .sizes_at = content_.ints.size() + 2});
      content_.storage.push_back({.key = key, .has_offset = true, .rank = 2, .offsets_at = content_.ints.size(), .file = i.file,
                                  .offset = i.file_offset, .length = length});
      content_.ints.insert(content_.ints.end(), {i.offsets[0], i.offsets[1], i.sizes[0], i.sizes[1]});
      ++content_.tensors[t].chunk_count;
      file_bytes_[i.file] += length;
      items_.push_back(i);
    }
  }

  void item(const Item& i, Sink& sink) const {
    const std::string pickle = tensor_item_pickle(spec_.dtype, i.sizes);
    const TorchArchiveLayout layout = tensor_item_layout(pickle.size(), static_cast<uint64_t>(i.sizes[0] * i.sizes[1]) * element_);
    const uint32_t data_crc = payload(i, i.file_offset + layout.payload(kItemData), sink);
    const std::array<std::string_view, 4> texts{pickle, kByteorderLittle, "", kArchiveVersion};
    std::array<uint32_t, 4> crcs{};
    for (uint64_t r = 0; r < texts.size(); ++r) {
      crcs[r] = r == kItemData ? data_crc : crc32(as_bytes(texts[r]));
      if (r != kItemData) sink.write(i.file, i.file_offset + layout.payload(r), as_bytes(texts[r]));
    }
    layout.emit_frame(crcs, [&](uint64_t offset, Bytes bytes) { sink.write(i.file, i.file_offset + offset, bytes); });
  }

  // Rows of the chunk, in blocks of about 1 MiB. Returns the CRC-32 of the whole.
  uint32_t payload(const Item& i, uint64_t at, Sink& sink) const {
    const auto columns = static_cast<uint64_t>(i.sizes[1]);
    const uint64_t rows_each = std::max<uint64_t>((1 << 20) / (columns * element_), 1);
    const uint64_t total = static_cast<uint64_t>(i.sizes[0]) * columns * element_;
    std::vector<std::byte> block(rows_each * columns * element_);
    Crc32Sum sum;
    uint64_t done = 0;
    for (uint64_t row = 0; row < static_cast<uint64_t>(i.sizes[0]); row += rows_each) {
      const uint64_t rows = std::min(rows_each, static_cast<uint64_t>(i.sizes[0]) - row);
      for (uint64_t r = 0; r < rows; ++r)
        fill(block.data() + r * columns * element_, i.tensor,
             (static_cast<uint64_t>(i.offsets[0]) + row + r) * columns_ + static_cast<uint64_t>(i.offsets[1]), columns);
      const Bytes bytes = Bytes(block).first(rows * columns * element_);
      sum.add(crc32_raw(bytes), bytes.size(), total - done - bytes.size());
      sink.write(i.file, at + done, bytes);
      done += bytes.size();
    }
    return sum.value(total);
  }

  // `count` elements from global element `first` on. A block of 8 bytes of noise holds 8 / element_ elements.
  void fill(std::byte* to, uint32_t tensor, uint64_t first, uint64_t count) const {
    const uint64_t stream = noise(spec_.seed ^ (uint64_t{tensor} << 32));
    uint64_t byte = first * element_, left = count * element_;
    while (left > 0) {
      const uint64_t value = (noise(stream + byte / 8) & mask_.keep) | mask_.set;
      const uint64_t skip = byte % 8, n = std::min(8 - skip, left);
      std::memcpy(to, reinterpret_cast<const std::byte*>(&value) + skip, n);
      to += n;
      byte += n;
      left -= n;
    }
  }

  const SyntheticSpec& spec_;
  uint64_t element_;
  Mask mask_;
  uint64_t rows_ = 0, columns_ = 0;
  std::deque<std::string> texts_;
  MetadataContent content_;
  std::vector<Item> items_;
  std::vector<uint64_t> file_bytes_;
};

}  // namespace

SyntheticReport write_synthetic(Io& io, const std::string& out, const SyntheticSpec& spec, unsigned workers, Replace replace, const StopFlag& stop) {
  return Generator(spec).write(io, out, workers, replace, stop);
}

}  // namespace dcp
