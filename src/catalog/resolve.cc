#include "catalog/resolve.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/checked.h"
#include "catalog/cover.h"
#include "catalog/item_source.h"

namespace dcp {
namespace {

// One item to look into. tensor is kNone for a byte item.
struct Wanted {
  ItemId item = 0;
  TensorId tensor = kNone;
  uint32_t chunk = 0;  // within the tensor
  BlobId blob = kNone;
};

// Items a worker takes at once: enough for long reads, few enough to share 10^5 items evenly.
constexpr size_t kBatch = 256;

class Resolver {
 public:
  Resolver(DataFiles& files, const Catalog& catalog, const ResolveOptions& options, Resolved& out)
      : files_(files), catalog_(catalog), options_(options), out_(out) {}

  void run(std::vector<Wanted> wanted, const StopFlag& stop) {
    const auto place = [&](const Wanted& w) { return std::pair(catalog_.items[w.item].file, catalog_.items[w.item].offset); };
    std::ranges::sort(wanted, {}, place);
    const uint64_t batches = (wanted.size() + kBatch - 1) / kBatch;
    parallel_for(options_.workers, batches, stop, [&](unsigned, uint64_t n) {
      const size_t first = n * kBatch;
      batch(std::span(wanted).subspan(first, std::min(kBatch, wanted.size() - first)));
    });
    out_.bytes_read = bytes_read_;
  }

 private:
  void batch(std::span<const Wanted> wanted) {
    for (size_t i = 0; i < wanted.size();) {
      const uint32_t file = catalog_.items[wanted[i].item].file;
      size_t end = i;
      uint64_t run_end = 0;
      while (end < wanted.size() && catalog_.items[wanted[end].item].file == file) {
        run_end = std::max(run_end, catalog_.items[wanted[end].item].offset + catalog_.items[wanted[end].item].length);
        ++end;
      }
      SliceSource source(files_.io(), files_.open(file), *catalog_.files[file].bytes);
      for (; i < end; ++i) one(source, wanted[i], run_end);
      bytes_read_ += source.bytes_read();
    }
  }

  std::string_view key(const Wanted& w) const {
    return w.tensor != kNone ? catalog_.key(catalog_.tensors[w.tensor]) : catalog_.key(catalog_.blobs[w.blob]);
  }

  void one(SliceSource& source, const Wanted& w, uint64_t run_end) {
    const Item& item = catalog_.items[w.item];
    const Place place = catalog_.place_of(w.item, key(w));
    if (item.transforms != 0) return transformed(w, place);
    source.go_to(item.offset, item.length, run_end);
    if (w.tensor == kNone) return blob(source, w.item, place, {}, item.offset);
    if (!tensor(source, w, place, item.offset)) blob(source, w.item, place, {}, item.offset);
  }

  // A byte item is decoded whole. Of a tensor item only the ends are kept, unless it turns out opaque.
  void transformed(const Wanted& w, const Place& place) {
    if (w.tensor != kNone) {
      const uint64_t elements = volume(catalog_.box(catalog_.tensors[w.tensor], w.chunk).sizes);
      EndsSource ends(place);
      const uint64_t cap = add_or_fail(mul_or_fail(elements, 16, place), options_.limits.item_pickle_bytes, place);
      decode_item(files_, catalog_, w.item, key(w), cap, [&](Bytes b) { ends.append(b); });
      bytes_read_ += catalog_.items[w.item].length;
      if (tensor(ends, w, place, 0)) return;
    }
    std::vector<std::byte> decoded;
    decode_item(files_, catalog_, w.item, key(w), options_.limits.blob_bytes, [&](Bytes b) {
      hold(2 * b.size(), place);  // a vector that grows is there twice
      decoded.insert(decoded.end(), b.begin(), b.end());
    });
    bytes_read_ += catalog_.items[w.item].length;
    MemorySource source(decoded);  // its bytes stay where they are when the vector is moved
    blob(source, w.item, place, std::move(decoded), 0);
  }

  // Objects stay in memory until they are written, and a stream of kilobytes may decode to a gigabyte.
  void hold(uint64_t bytes, const Place& place) {
    if (held_.fetch_add(bytes) + bytes <= options_.memory_bytes) return;
    Problem p = make_problem(ProblemId::memory_cap, place, "an object that takes more than what is left");
    p.hint = "give a larger --max-memory, or leave the key out with --exclude";
    throw Error(std::move(p));
  }

  // False: an opaque item.
  bool tensor(ItemSource& source, const Wanted& w, const Place& place, uint64_t base) {
    const TensorItem t = read_tensor_item(source, place, options_.limits);
    ItemInfo& info = out_.items[w.item];
    info.resolved = true;
    if (t.form == ItemForm::kOpaque) {
      info.opaque = true;
      return false;
    }
    const Dims sizes = catalog_.box(catalog_.tensors[w.tensor], w.chunk).sizes;
    if (!std::ranges::equal(sizes, t.sizes)) {
      const std::vector<int64_t> zero(t.sizes.size(), 0), origin(sizes.size(), 0);
      fail(ProblemId::chunk_shape_differs, place, slice_text(zero, t.sizes), slice_text(origin, sizes));
    }
    info.record = base + t.payload;
    info.record_bytes = t.record_bytes;
    info.crc = t.crc;
    info.has_crc = t.has_crc;
    info.dtype = t.dtype;
    info.swap = t.big_endian && swap_unit(t.dtype) > 1;
    info.conj = t.conj;
    info.neg = t.neg;
    if (t.storage_offset != 0 || !row_major(t)) {
      const std::lock_guard lock(mutex_);
      info.strides_at = out_.strides.size();
      out_.strides.push_back(narrow<int64_t>(t.storage_offset));
      out_.strides.insert(out_.strides.end(), t.strides.begin(), t.strides.end());
    }
    return true;
  }

  // Strides of dims of size 1 mean nothing.
  static bool row_major(const TensorItem& t) {
    int64_t stride = 1;
    for (size_t d = t.sizes.size(); d-- > 0;) {
      if (t.sizes[d] != 1 && t.strides[d] != stride) return false;
      stride *= t.sizes[d];
    }
    return true;
  }

  void blob(ItemSource& source, ItemId item, const Place& place, std::vector<std::byte> decoded, uint64_t base) {
    ResolvedBlob b{.item = read_blob_item(source, place, options_.limits), .decoded = {}};
    hold(b.item.pickle.capacity(), place);
    for (BlobItem::Storage& s : b.item.storages) s.payload += base;
    b.decoded = std::move(decoded);
    const std::lock_guard lock(mutex_);
    out_.items[item].resolved = true;
    out_.blobs.emplace(item, std::move(b));
  }

  DataFiles& files_;
  const Catalog& catalog_;
  const ResolveOptions& options_;
  Resolved& out_;
  std::mutex mutex_;  // strides, blobs
  std::atomic<uint64_t> bytes_read_{0};
  std::atomic<uint64_t> held_{0};  // bytes of byte items
};

}  // namespace

uint64_t Resolved::memory_bytes() const {
  uint64_t bytes = items.capacity() * sizeof(ItemInfo) + strides.capacity() * sizeof(int64_t);
  for (const auto& [id, b] : blobs) bytes += b.item.pickle.capacity() + b.decoded.capacity() + b.item.storages.size() * 96 + 128;
  return bytes;
}

Resolved resolve(DataFiles& files, const Catalog& catalog, std::span<const TensorId> tensors, std::span<const BlobId> blobs,
                 const ResolveOptions& options, const StopFlag& stop) {
  std::vector<Wanted> wanted;
  for (TensorId t : tensors) {
    const Tensor& tensor = catalog.tensors[t];
    for (uint32_t c = 0; c < tensor.chunk_count; ++c)
      if (volume(catalog.box(tensor, c).sizes) > 0) wanted.push_back({.item = catalog.item_of(tensor, c), .tensor = t, .chunk = c});
  }
  for (BlobId b : blobs) wanted.push_back({.item = catalog.item_of(b), .blob = b});
  Resolved out;
  out.items.resize(catalog.items.size());
  out.strides.push_back(0);
  Resolver(files, catalog, options, out).run(std::move(wanted), stop);
  return out;
}

}  // namespace dcp
