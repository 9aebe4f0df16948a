#include "app/extract.h"

#include <algorithm>
#include <cstring>

#include "app/parts.h"
#include "exec/execute.h"
#include "plan/layout.h"

namespace dcp {
namespace {

class BufferSink final : public Sink {
 public:
  explicit BufferSink(MutableBytes to) : to_(to) {}
  void write(uint32_t, uint64_t offset, Bytes bytes) override { std::ranges::copy(bytes, to_.subspan(offset, bytes.size()).begin()); }
  void finish() override {}
  void commit() override {}
  void abort() noexcept override {}

 private:
  MutableBytes to_;
};

Selection select_one(const Catalog& catalog, const ExtractRequest& request) {
  return select_keys(catalog, {.rules = {{KeyRule::Kind::kKey, request.key}}, .dtypes = request.dtypes});
}

}  // namespace

Extraction::Extraction(ExtractRequest request, World& world) : request_(std::move(request)), world_(world), prep_(request_.read, world) {
  const Catalog& catalog = prep_.open();
  selection_ = select_one(catalog, request_);
  const Parts parts = check_selected(catalog, selection_, {.blobs = true});
  if (!is_object()) {
    prep_.take_part(request_.slice.value_or(Subscript()), entry().tensor());
    axes_ = request_.slice.value_or(Subscript()).of(catalog.dims(catalog.tensors[entry().tensor()]));
    shape_ = shape_of(axes_);
  } else if (request_.slice) {
    fail(ProblemId::usage, {.path = catalog.path, .tensor = std::string(key()), .object = true}, "a slice of an object", "a tensor");
  }
  prep_.resolve(parts.tensors, parts.blobs, Faults::kThrow, BlobUse::kPickles);
  prep_.compare_copies(Faults::kThrow);
}

PickleGraph Extraction::object() {
  const BlobItem& item = prep_.source().resolved.blob(prep_.catalog().item_of(entry().blob())).item;
  return PickleGraph(item.pickle, item.pickle_place, request_.read.source.limits());
}

void Extraction::check() {
  if (request_.slice) return;
  const Plan plan = plan_arrays(prep_.source(), selection_, ArrayForm::kRaw, {});
  uint64_t planned = 0;
  const unsigned workers = prep_.fit(plan, kMiB, planned);
  NoSink sink;
  Progress progress;
  const ExecuteReport done = execute(plan, prep_.source(), sink, {.workers = workers}, {progress, world_.stop});
  for (size_t i = 1; i < done.damage.size(); ++i) world_.events.warn(world_.events.line_of(done.damage[i]));
  if (!done.damage.empty()) throw Error(done.damage.front());
}

std::vector<std::byte> Extraction::read(const IndexMap& map) {
  prep_.refuse_opaque_part();
  const Derived derived = derive(prep_.source(), {&map, 1});
  Selection selection = select_keys(derived.catalog, {});
  selection.entries.front().dtype = dtype();
  const Plan plan = plan_arrays({derived.catalog, derived.resolved}, selection, ArrayForm::kRaw, {.plane_bytes = kMiB, .verify = false});
  std::vector<std::byte> bytes(plan.bytes_to_write);
  uint64_t planned = 0;
  if (workers_ == 0) workers_ = prep_.fit(plan, kMiB, planned);
  BufferSink sink(bytes);
  Progress progress;
  execute(plan, {derived.catalog, derived.resolved, prep_.source().files}, sink,
          {.workers = workers_, .fp8_overflow = request_.fp8_overflow}, {progress, world_.stop});
  return bytes;
}

// A piece is a slice: leading dims with one index each, one dim ranged, the rest whole.
void Extraction::each_piece(const std::function<void(Bytes)>& fn) {
  if (volume(shape_) == 0) return;
  const Catalog& catalog = prep_.catalog();
  const uint64_t max = std::clamp<uint64_t>(request_.read.max_memory / 32, kMiB, 16 * kMiB);
  std::vector<SliceAxis> piece = axes_;
  std::vector<size_t> kept;
  for (size_t d = 0; d < axes_.size(); ++d)
    if (axes_[d].kept) kept.push_back(d);
  uint64_t row = bytes_of(dtype());
  size_t outer = kept.size();  // dims before it are gone through
  while (outer > 0 && row * static_cast<uint64_t>(shape_[outer - 1]) <= max) row *= static_cast<uint64_t>(shape_[--outer]);
  const int64_t step = outer == 0 ? 1 : std::max<int64_t>(1, static_cast<int64_t>(max / row));
  const auto take = [&](size_t k, int64_t from, int64_t count) {
    const SliceAxis& whole = axes_[kept[k]];
    piece[kept[k]] = {.start = whole.start + from * whole.step, .step = whole.step, .count = count};
  };
  std::vector<int64_t> at(outer, 0);  // the last of them is ranged
  for (bool more = true; more;) {
    for (size_t k = 0; k < outer; ++k) take(k, at[k], k + 1 == outer ? std::min(step, shape_[k] - at[k]) : 1);
    fn(read(map_of(catalog, entry().tensor(), piece)));
    more = false;
    for (size_t k = outer; k-- > 0 && !more;) {
      at[k] += k + 1 == outer ? step : 1;
      more = at[k] < shape_[k];
      if (!more) at[k] = 0;
    }
  }
}

Glance Extraction::glance(uint64_t max) {
  constexpr int64_t kEdge = 3;
  constexpr uint64_t kMax = 4096;  // elements, where there are many dims
  Glance g{.head = shape_, .tail = std::vector<int64_t>(shape_.size(), 0), .is_cut = std::vector<bool>(shape_.size()), .elements = {}};
  IndexMap map = map_of(prep_.catalog(), entry().tensor(), axes_);
  if (volume(shape_) > max) {
    uint64_t shown = 1;
    for (size_t k = shape_.size(); k-- > 0;) {
      if (shown * static_cast<uint64_t>(std::min(shape_[k], 2 * kEdge)) > kMax) {
        g.head[k] = 1;
      } else if (shape_[k] > 2 * kEdge) {
        g.head[k] = g.tail[k] = kEdge;
      }
      shown *= static_cast<uint64_t>(g.head[k] + g.tail[k]);
      g.is_cut[k] = g.head[k] + g.tail[k] < shape_[k];
    }
    // The one block becomes one for each choice of head or tail along each dim that has both.
    const IndexBlock whole = map.blocks.front();
    map.blocks = {whole};
    for (IndexBlock& b : map.blocks) b.axes.clear();
    uint32_t k = 0;
    for (uint32_t d = 0; d < axes_.size(); ++d) {
      if (!axes_[d].kept) continue;
      const size_t count = map.blocks.size();
      for (size_t b = 0; b < count; ++b) {
        IndexBlock tail = map.blocks[b];
        const auto add = [&](IndexBlock& to, int64_t size) {
          if (size > 1) to.axes.push_back({.size = size, .target_dim = k, .target_step = 1, .source_dim = d, .source_step = axes_[d].step});
        };
        add(map.blocks[b], g.head[k]);
        if (g.tail[k] == 0) continue;
        add(tail, g.tail[k]);
        tail.target_at[k] = g.head[k];
        tail.source_at[d] += (shape_[k] - g.tail[k]) * axes_[d].step;
        map.blocks.push_back(std::move(tail));
      }
      map.shape[k] = g.head[k] + g.tail[k];
      ++k;
    }
  }
  g.elements = read(map);
  return g;
}

}  // namespace dcp
