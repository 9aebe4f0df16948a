#include "items/resolve.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "catalog/torch_files.h"
#include "items/item_resolver.h"

namespace dcp {
namespace {

// Items a worker takes at once: enough for long reads, few enough to share 10^5 items evenly.
constexpr size_t kBatch = 256;

// Items of a checkpoint lie side by side; if two overlap, at least one is lost. In malicious metadata, 10^5 items may overlap, each of
// which unpacks to a thousand times the file.
constexpr uint64_t kMaxCrowd = 16;

// Sorts items by file, then by offset. Most writers store keys in the same order in all their files, so little is left to sort once the
// files are separated; comparing millions of items would cost more than visiting each.
std::vector<Wanted> by_place(const Catalog& catalog, std::span<const Wanted> wanted) {
  std::vector<uint32_t> next(catalog.files.size() + 1);
  for (const Wanted& w : wanted) ++next[item_of(catalog, w).file + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<Wanted> sorted(wanted.size());
  for (const Wanted& w : wanted) sorted[next[item_of(catalog, w).file]++] = w;
  const auto place = [&](const Wanted& w) { return std::pair(item_of(catalog, w).offset, w.item); };
  for (auto first = sorted.begin(); const uint32_t end : next) {
    const auto last = sorted.begin() + end;
    if (!std::ranges::is_sorted(first, last, {}, place)) std::ranges::sort(first, last, {}, place);
    first = last;
  }
  return sorted;
}

// Keeps items of each file, which are consecutive, until they add up to kMaxCrowd times its bytes. If faults are thrown, only byte items
// count: a tensor unpacks to the bytes that are written for it.
void keep_uncrowded(const Catalog& catalog, std::vector<Wanted>& sorted, Faults faults, std::vector<Problem>& findings) {
  if (catalog.traits().in_torch_files) return;  // keys share storages there; the resolver counts what objects share
  uint32_t file = kNone;
  uint64_t left = 0;
  bool crowded = false;
  std::erase_if(sorted, [&](const Wanted& w) {
    const Item& item = item_of(catalog, w);
    if (item.file != file) {
      file = item.file;
      left = std::min(*catalog.files[file].bytes, UINT64_MAX / kMaxCrowd) * kMaxCrowd;
      crowded = false;
    }
    if (faults == Faults::kThrow && w.blob == kNone) return false;
    if (!crowded && item.length <= left) {
      left -= item.length;
      return false;
    }
    if (!std::exchange(crowded, true)) {
      const std::string bytes = std::to_string(*catalog.files[file].bytes), most = std::to_string(kMaxCrowd);
      Problem p = make_problem(ProblemId::items_overlap, {.path = catalog.file_path(file)},
                               "so many that they add up to " + most + " times the file's " + bytes + " bytes; no more of them are read");
      if (faults == Faults::kThrow) throw Error(std::move(p));
      p.severity = Severity::kDamage;
      findings.push_back(std::move(p));
    }
    return true;
  });
}

void batch(ItemResolver& items, const Catalog& catalog, std::span<const Wanted> wanted) {
  for (size_t i = 0; i < wanted.size();) {
    const uint32_t file = item_of(catalog, wanted[i]).file;
    size_t end = i;
    uint64_t run_end = 0;
    while (end < wanted.size() && item_of(catalog, wanted[end]).file == file) {
      run_end = std::max(run_end, item_of(catalog, wanted[end]).offset + item_of(catalog, wanted[end]).length);
      ++end;
    }
    items.in_file(file, wanted.subspan(i, end - i), run_end);
    i = end;
  }
}

}  // namespace

uint64_t Resolved::memory_bytes() const {
  uint64_t bytes = items.capacity() * sizeof(ItemInfo) + strides.capacity() * sizeof(int64_t) + records.capacity() * sizeof(ItemRecord);
  for (const auto& [id, b] : blobs) bytes += b.item.pickle.capacity() + b.decoded.capacity() + b.item.storages.size() * 96 + 128;
  return bytes;
}

Resolved resolve(DataFiles& files, std::span<const TensorId> tensors, std::span<const BlobId> blobs, const ResolveOptions& options,
                 const StopFlag& stop) {
  const Catalog& catalog = files.catalog();
  std::vector<Wanted> wanted;
  const bool all = options.faults == Faults::kCollect;
  const auto want = [&](const Wanted& w, const Item& i) {
    if (options.only_files && i.file != kNone && !(*options.only_files)[i.file]) return;
    if (!all || (i.file != kNone && catalog.files[i.file].reaches(i))) wanted.push_back(w);
  };
  for (TensorId t : tensors) {
    const Tensor& tensor = catalog.tensors[t];
    for (uint32_t c = 0; c < tensor.chunk_count; ++c) {
      const ItemId item = catalog.item_of(tensor, c);
      if (all || volume(catalog.box(tensor, c).sizes) > 0) want({.item = item, .tensor = t, .chunk = c}, catalog.items[item]);
    }
  }
  Resolved out;
  // In malicious metadata, 10^4 keys may name one item, or in the pickle of a torch.save file one value.
  std::map<std::tuple<uint32_t, uint64_t, uint64_t, uint32_t>, ItemId> first_at;
  const auto place = [&](ItemId item, const Item& i) -> decltype(first_at)::key_type {
    if (!catalog.traits().in_torch_files) return {i.file, i.offset, i.length, i.transforms};
    if (!catalog.knows_items()) return {i.file, item, 0, kNone};  // rank 0 determines what is shared
    const Value& v = catalog.torch->items[item].value;
    const bool lies_somewhere = v.in_arena() || v.kind == Kind::kText || v.kind == Kind::kBytes;
    return {i.file, lies_somewhere ? v.payload : item, v.n, lies_somewhere ? static_cast<uint32_t>(v.kind) : kNone};
  };
  for (BlobId b : blobs) {
    const ItemId item = catalog.item_of(b);
    const Item& i = catalog.items[item];
    const auto [same, fresh] = first_at.try_emplace(place(item, i), item);
    if (!fresh && i.file != kNone) out.shared.emplace(item, same->second);
    else want({.item = item, .blob = b}, i);
  }
  for (uint32_t d = 0; all && d < catalog.duplicates.size(); ++d)
    want({.item = catalog.duplicates[d].item, .duplicate = d}, catalog.duplicates[d].other);
  out.items.resize(catalog.items.size());
  if (catalog.traits().in_torch_files && catalog.knows_items()) out.strides = catalog.torch->strides;
  else out.strides.push_back(0);
  wanted = by_place(catalog, wanted);
  keep_uncrowded(catalog, wanted, options.faults, out.findings);
  ItemResolver items(files, catalog, options, out);
  parallel_for(options.workers, (wanted.size() + kBatch - 1) / kBatch, stop, [&](unsigned, uint64_t n) {
    const size_t first = n * kBatch;
    batch(items, catalog, std::span(wanted).subspan(first, std::min(kBatch, wanted.size() - first)));
  });
  items.end();
  for (const auto& [item, first] : out.shared) out.items[item] = out.items[first];
  return out;
}

std::vector<ViewAxis> axes_of(const SourceFacts& source, const Tensor& t, uint32_t chunk, uint64_t& first) {
  const ItemId item = source.catalog.item_of(t, chunk);
  if (source.resolved.views.is_view(item)) {
    const View& view = source.resolved.views.of[item];
    const std::span<const ViewAxis> axes = source.resolved.views.axes_of(view);
    first = view.first;
    return {axes.begin(), axes.end()};
  }
  const Dims sizes = source.catalog.box(t, chunk).sizes;
  Numbers strides = row_major(sizes);
  first = 0;
  if (const uint64_t at = source.resolved.items[item].strides_at; at != 0) {
    first = static_cast<uint64_t>(source.resolved.strides[at]);
    std::copy_n(source.resolved.strides.data() + at + 1, t.rank, strides.begin());
  }
  std::vector<ViewAxis> axes;
  for (uint32_t d = 0; d < t.rank; ++d)
    if (sizes[d] > 1) axes.push_back({.size = sizes[d], .step = 1, .stride = strides[d], .dim = d});
  return axes;
}

}  // namespace dcp
