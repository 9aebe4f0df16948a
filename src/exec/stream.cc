// The unit of an item that cannot be read at random: decoded once from front to back, summed, and scattered as it comes.
#include <algorithm>

#include "base/checked.h"
#include "catalog/item_source.h"
#include "exec/worker.h"
#include "kernels/kernels.h"

namespace dcp {
namespace {

// Runs of a chunk that are contiguous in the chunk (row-major) and in the tensor: `elements` each, the next at the next index of the
// outer dims.
class Runs {
 public:
  Runs(Dims tensor, BoxView chunk) : tensor_(tensor), chunk_(chunk), outer_(tensor.size()) {
    while (outer_ > 0) {
      --outer_;
      elements_ *= static_cast<uint64_t>(chunk.sizes[outer_]);
      if (chunk.sizes[outer_] != tensor[outer_]) break;
    }
  }
  uint64_t elements() const { return elements_; }
  // Position in the tensor, in elements, of the first element of run `n`.
  uint64_t start(uint64_t n) const {
    uint64_t at = 0, stride = 1;
    for (size_t d = tensor_.size(); d-- > 0;) {
      int64_t index = chunk_.offsets[d];
      if (d < outer_) {
        index += static_cast<int64_t>(n % static_cast<uint64_t>(chunk_.sizes[d]));
        n /= static_cast<uint64_t>(chunk_.sizes[d]);
      }
      at += static_cast<uint64_t>(index) * stride;
      stride *= static_cast<uint64_t>(tensor_[d]);
    }
    return at;
  }

 private:
  Dims tensor_;
  BoxView chunk_;
  size_t outer_;
  uint64_t elements_ = 1;
};

}  // namespace

// The only region of a streamed tensor is the whole of it (plan: layouts). `done` counts elements already written.
void Worker::stream(const PlanTensor& tensor, uint32_t chunk) {
  const Tensor& t = run_.catalog.tensors[tensor.id];
  const BoxView box = run_.catalog.box(t, chunk);
  const uint64_t total = volume(box.sizes);
  if (total == 0) return;
  const ItemId item = run_.catalog.item_of(t, chunk);
  const ItemInfo& info = run_.resolved.items[item];
  const Region& region = run_.plan.regions[tensor.first_region];
  const uint64_t stored = bytes_of(info.dtype), element = bytes_of(region.dtype);
  // In none of its three dtypes does a block take more than a pass (plan: units).
  const uint64_t block_elements = kPassBytes / std::max({stored, bytes_of(t.dtype), element});
  const Runs runs(run_.catalog.dims(t), box);
  const uint64_t region_bytes = run_.catalog.elements(t) * element;
  uint64_t done = 0;

  const auto deliver = [&](MutableBytes in_source, uint64_t count) {
    Bytes elements = cast_elements(tensor, finish_elements(info, in_source, count, t.dtype), count, t.dtype);
    while (!elements.empty()) {
      const uint64_t in_run = done % runs.elements();
      const uint64_t bytes = std::min<uint64_t>(elements.size(), (runs.elements() - in_run) * element);
      const uint64_t at = (runs.start(done / runs.elements()) + in_run) * element;
      if (run_.sums.wants_region(tensor.first_region))
        run_.sums.add_region(tensor.first_region, crc32_raw(elements.first(bytes)), bytes, region_bytes - at - bytes);
      write(region.file, region.file_offset + at, elements.first(bytes));
      elements = elements.subspan(bytes);
      done += bytes / element;
    }
  };

  // The record lies at [first, last) of the decoded stream; what is before and after it is the archive's frame. Positions in an item
  // without a transform, which may lie beside transformed ones, are resolved in its file.
  const uint64_t first = info.record - (run_.catalog.items[item].transforms == 0 ? run_.catalog.items[item].offset : 0);
  const uint64_t last = add_or_fail(first, info.record_bytes, {});
  const bool whole = info.strides_at != 0;  // strided: collected first, then gathered
  const MutableBytes record = source_.first(whole ? info.record_bytes : block_elements * stored);
  uint64_t position = 0, held = 0, seen = 0;
  const auto flush = [&] {
    const uint64_t elements = std::min(held / stored, total - done);
    deliver(record.first(elements * stored), elements);
    std::move(record.begin() + static_cast<int64_t>(elements * stored), record.begin() + static_cast<int64_t>(held), record.begin());
    held = done == total ? 0 : held - elements * stored;  // a storage may be larger than its tensor
  };
  const uint64_t cap = add_or_fail(last, 16 * kMiB, {});
  const Place place = run_.catalog.place_of(item, run_.catalog.key(t));
  decode_item(run_.files, run_.catalog, run_.catalog.items[item], place, cap, [&](Bytes block) {
    const uint64_t begin = std::max(position, first), end = std::min(position + block.size(), last);
    Bytes part = begin < end ? block.subspan(begin - position, end - begin) : Bytes();
    position += block.size();
    seen += part.size();
    if (run_.sums.wants_item(item)) run_.sums.add_item(item, crc32_raw(part), part.size(), info.record_bytes - seen);
    while (!part.empty()) {
      const uint64_t n = std::min<uint64_t>(part.size(), record.size() - held);
      std::copy_n(part.begin(), n, record.begin() + static_cast<int64_t>(held));
      held += n;
      part = part.subspan(n);
      if (!whole && held == record.size()) flush();
    }
  });
  run_.progress.bytes_read.fetch_add(run_.catalog.items[item].length, std::memory_order_relaxed);
  if (seen != info.record_bytes)  // the stream is not what it was when it was resolved
    fail(ProblemId::zstd_truncated, place, std::to_string(position) + " bytes", std::to_string(last) + " or more");
  if (!whole) return flush();
  const int64_t* strides = run_.resolved.strides.data() + info.strides_at;
  const MutableBytes dense = packed_.first(total * stored);
  std::vector<int64_t> to(t.rank);
  int64_t stride = 1;
  for (size_t d = t.rank; d-- > 0; stride *= box.sizes[d]) to[d] = stride;
  copy_strided(dense.data(), to, record.data() + static_cast<uint64_t>(strides[0]) * stored, {strides + 1, t.rank}, box.sizes, static_cast<unsigned>(stored));
  for (uint64_t at = 0; at < total; at += block_elements) {
    const uint64_t count = std::min(block_elements, total - at);
    deliver(dense.subspan(at * stored, count * stored), count);
  }
}

void Worker::check_stream(const Group& g) {
  std::span<const ItemRecord> records = std::span(run_.plan.records).subspan(g.first, g.count);
  const Item& item = run_.catalog.item_of(records[0]);
  const Place place = place_of(run_.catalog, records[0]);
  const uint64_t end = records.back().offset + records.back().bytes;
  uint64_t at = 0;
  decode_item(run_.files, run_.catalog, item, place, add_or_fail(end, 16 * kMiB, place), [&](Bytes block) {
    add_parts(records, at, block);
    at += block.size();
  });
  run_.progress.bytes_read.fetch_add(item.length, std::memory_order_relaxed);
  if (at < end) fail(ProblemId::zstd_truncated, place, std::to_string(at) + " bytes", std::to_string(end) + " or more");
}

}  // namespace dcp
