#include "app/extract.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "app/read.h"
#include "exec/execute.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "plan/layout.h"

namespace dcp {
namespace {

// What lies around the payload of the plan's one file.
class FrameSink final : public PassingSink {
 public:
  FrameSink(const Plan& plan) : begin_(plan.files.front().bytes), end_(begin_) {
    if (!plan.regions.empty()) begin_ = plan.regions.front().file_offset, end_ = begin_ + plan.payload_bytes(plan.regions.front());
    head_.resize(begin_);
    tail_.resize(plan.files.front().bytes - end_);
  }
  void write(uint32_t, uint64_t offset, Bytes bytes) override {
    const uint64_t end = offset + bytes.size();
    if (offset < begin_) copy(bytes.first(std::min(end, begin_) - offset), head_, offset);
    if (end > end_) copy(bytes.last(end - std::max(offset, end_)), tail_, std::max(offset, end_) - end_);
  }
  Bytes head() const { return head_; }
  Bytes tail() const { return tail_; }

 private:
  static void copy(Bytes from, std::vector<std::byte>& to, uint64_t at) { std::ranges::copy(from, MutableBytes(to).subspan(at).begin()); }
  uint64_t begin_, end_;
  std::vector<std::byte> head_, tail_;
};

}  // namespace

Extraction::Extraction(ExtractRequest request, World& world)
    : request_(std::move(request)), world_(world), opened_(open(request_.read, begin_reading(request_.read, world), world)) {
  const Catalog& catalog = opened_.catalog();
  note_warnings(*opened_.found, world);
  selection_ = select_keys(catalog, {.rules = {{KeyRule::Kind::kKey, request_.key}}, .dtypes = request_.dtypes});
  std::optional<TensorSlice> part;
  ResolveRequest wanted{.parts = check_selected(*opened_.found, selection_, {.blobs = true})};
  if (!is_object()) {
    axes_ = request_.slice.value_or(Subscript()).of(catalog.dims(catalog.tensors[entry().tensor()]));
    shape_ = shape_of(axes_);
    part = {.tensor = entry().tensor(), .axes = axes_};
    wanted.part = &*part;
  } else if (request_.slice) {
    fail(ProblemId::usage, {.path = catalog.path, .tensor = std::string(key()), .object = true}, "a slice of an object", "a tensor");
  }
  resolved_ = resolve(opened_, wanted, world);
  compare_copies(opened_, resolved_, Faults::kThrow, world);
}

void Extraction::save(const std::string& path, const std::function<void(const TextOut&)>& emit, const SmallFileOptions& options) {
  refuse_source(path, opened_.catalog());
  save_text(world_, path, emit, options);
}

PickleGraph Extraction::object() {
  const BlobItem& item = resolved_.blob(opened_.catalog().item_of(entry().blob())).item;
  return PickleGraph(item.pickle, item.pickle_place, opened_.limits());
}

void Extraction::check() {
  if (is_object() || request_.slice || !request_.check_crcs || std::exchange(is_checked_, true)) return;
  PassingSink sink;
  run(plan_arrays(source(), selection_, ArrayForm::kRaw, {}), source(), sink);
}

void Extraction::torch_file(const std::function<void(Bytes)>& fn) {
  LayoutOptions layout;
  layout.bare = true;
  std::optional<DerivedPart> part;
  if (request_.slice) part = part_of(map_of(opened_.catalog(), entry().tensor(), axes_));
  layout.units.verify = !request_.slice;
  const Source from = part ? part->source(*opened_.files) : source();
  const Plan plan = plan_torch(from, part ? part->selection : selection_, layout);
  FrameSink frame(plan);
  run(plan, from, frame);
  fn(frame.head());
  if (!plan.regions.empty()) pieces(fn);
  fn(frame.tail());
}

void Extraction::stream(OutputRequest::Kind form, const std::function<void(Bytes)>& fn) {
  if (form == OutputRequest::Kind::kTorch) return torch_file(fn);
  if (is_object()) fail_no_elements(checkpoint(), key());
  check();
  if (form == OutputRequest::Kind::kNpy) fn(as_bytes(npy_header(dtype(), shape_)));
  if (form == OutputRequest::Kind::kSafetensors) {
    if (facts_of(dtype()).safetensors.empty())
      fail(ProblemId::no_dtype_in_output, {.path = checkpoint()}, std::string(key()) + " (" + std::string(facts_of(dtype()).name) + ")");
    std::vector<SafetensorsEntry> entry{{.name = std::string(key()), .dtype = dtype(), .shape = shape_}};
    fn(as_bytes(write_safetensors_header(entry, {{"format", "pt"}})));
  }
  each_piece(fn);
}

void Extraction::run(const Plan& plan, const Source& from, Sink& sink) {
  uint64_t planned = 0;
  const unsigned workers = fit(opened_, plan, kMiB, world_, planned);
  execute_or_throw(plan, from, sink, {.workers = workers, .fp8_overflow = request_.fp8_overflow}, world_);
}

std::vector<std::byte> Extraction::read(const IndexMap& map) {
  const DerivedPart part = part_of(map);
  const Source from = part.source(*opened_.files);
  const Plan plan = plan_arrays(from, part.selection, ArrayForm::kRaw, {.plane_bytes = kMiB, .verify = false});
  std::vector<std::byte> bytes(plan.bytes_to_write);
  uint64_t planned = 0;
  if (workers_ == 0) workers_ = fit(opened_, plan, kMiB, world_, planned);
  BufferSink sink(bytes);
  Progress progress;
  execute(plan, from, sink, {.workers = workers_, .fp8_overflow = request_.fp8_overflow}, {progress, world_.stop});
  return bytes;
}

bool Extraction::is_decoded() {
  const Plan plan = plan_arrays(source(), selection_, ArrayForm::kRaw, {.verify = false});
  return std::ranges::any_of(plan.groups, [](const Group& g) { return g.kind == Group::Kind::kStream; });
}

void Extraction::each_piece(const std::function<void(Bytes)>& fn) {
  check();
  pieces(fn);
}

// A piece is a slice: leading dims with one index each, one dim ranged, the rest whole.
void Extraction::pieces(const std::function<void(Bytes)>& fn) {
  if (volume(shape_) == 0) return;
  const Catalog& catalog = opened_.catalog();
  // What is compressed is decoded from its front for each piece that it crosses.
  const uint64_t max = is_decoded() ? std::clamp<uint64_t>(request_.read.max_memory / 4, kMiB, kGiB)
                                    : std::clamp<uint64_t>(request_.read.max_memory / 32, kMiB, 16 * kMiB);
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
  IndexMap map = map_of(opened_.catalog(), entry().tensor(), axes_);
  if (volume(shape_) <= max) {
    check();
  } else {
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
