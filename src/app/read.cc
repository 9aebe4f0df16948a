#include "app/read.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "app/resources.h"
#include "catalog/structure.h"
#include "exec/joined_reads.h"
#include "format/blob.h"
#include "items/item_source.h"
#include "kernels/kernels.h"
#include "plan/box_reads.h"
#include "plan/layout.h"

namespace dcp {

void BufferSink::write(uint32_t, uint64_t offset, Bytes bytes) { std::ranges::copy(bytes, to_.subspan(offset, bytes.size()).begin()); }

namespace {

// One file for each part, row-major in the tensor's dtype; in memory it has the caller's dtype and strides.
class PartsSink final : public PassingSink {
 public:
  // Files are numbered as they are added.
  void add(const CheckpointReader::Part& part, DType from, Dims sizes) {
    Target t{.to = part.to,
             .from = from,
             .dtype = part.dtype,
             .run = bytes_of(part.dtype),
             .sizes = {sizes.begin(), sizes.end()},
             .strides = part.strides};
    while (!t.sizes.empty() && (t.strides.back() == static_cast<int64_t>(t.run) || t.sizes.back() == 1)) {
      t.run *= static_cast<uint64_t>(t.sizes.back());
      t.sizes.pop_back();
      t.strides.pop_back();
    }
    targets_.push_back(std::move(t));
  }

  void write(uint32_t file, uint64_t offset, Bytes bytes) override {
    const Target& t = targets_[file];
    if (t.from == t.dtype) return place(t, offset, bytes);
    const uint64_t from = bytes_of(t.from), to = bytes_of(t.dtype);
    std::array<std::byte, 32 * kKiB> block;
    for (uint64_t at = 0; at < bytes.size();) {
      const uint64_t elements = std::min<uint64_t>((bytes.size() - at) / from, block.size() / to);
      cast(block.data(), t.dtype, bytes.data() + at, t.from, elements, {});
      place(t, (offset + at) / from * to, Bytes(block).first(elements * to));
      at += elements * from;
    }
  }

  MutableBytes memory(uint32_t file, uint64_t offset, uint64_t bytes) override {
    const Target& t = targets_[file];
    if (t.from != t.dtype || offset % t.run + bytes > t.run) return {};
    return {t.to + place_of_run(t, offset / t.run) + static_cast<int64_t>(offset % t.run), bytes};
  }

 private:
  struct Target {
    std::byte* to;
    DType from, dtype;
    uint64_t run;                         // bytes that follow each other in memory
    std::vector<int64_t> sizes, strides;  // of the dims around it
  };

  static int64_t place_of_run(const Target& t, uint64_t run) {
    int64_t at = 0;
    for (size_t d = t.sizes.size(); d-- > 0; run /= static_cast<uint64_t>(t.sizes[d]))
      at += static_cast<int64_t>(run % static_cast<uint64_t>(t.sizes[d])) * t.strides[d];
    return at;
  }

  static void place(const Target& t, uint64_t offset, Bytes bytes) {
    while (!bytes.empty()) {
      const Bytes piece = bytes.first(std::min<uint64_t>(bytes.size(), t.run - offset % t.run));
      std::memcpy(t.to + place_of_run(t, offset / t.run) + static_cast<int64_t>(offset % t.run), piece.data(), piece.size());
      offset += piece.size();
      bytes = bytes.subspan(piece.size());
    }
  }

  std::vector<Target> targets_;
};

bool asks_for_nothing(const SelectOptions& o) {
  return o.rules.empty() && !o.model_only && o.root.empty() && o.renames.empty() && !o.dtypes.any();
}

// All keys under their own names. Unlike select_keys() it does not look for what is model, which takes a while for 10^6 keys.
Selection all_keys(const Catalog& catalog) {
  Selection s;
  s.entries.reserve(catalog.order.size());
  for (const KeyRef ref : catalog.order)
    s.entries.push_back({.ref = ref, .key = catalog.key(ref), .dtype = ref.is_blob() ? DType{} : catalog.tensors[ref.tensor()].dtype});
  for (const StringId key : catalog.lacking) s.lacking.push_back(catalog.strings[key]);
  return s;
}

// A map is applied at once: the names that it makes are those of the entries.
Ready made(Opened opened, Selected& selected, const SelectOptions& options, World& world) {
  if (!selected.map) return {.opened = std::move(opened), .resolved = {}, .derived = {}};
  Parts parts{.tensors = selected.map->sources(), .blobs = selected.map->objects()};
  for (const TensorId t : parts.tensors) dcp::check_whole(opened.catalog(), opened.catalog().tensors[t]);
  Resolved resolved = resolve(opened, {.parts = parts}, world);
  compare_copies(opened, resolved, Faults::kThrow, world);
  Ready ready = make(std::move(opened), selected, std::move(resolved), options);
  return ready;
}

}  // namespace

CheckpointReader::CheckpointReader(const CheckpointReaderOptions& options, World& world) : extra_memory_(options.extra_memory) {
  Opened opened =
      open({.source = options.source, .ranks = {}, .threads = options.threads}, take_memory_cap(cap_of(extra_memory_), world), world);
  if (!options.map.is_given() && asks_for_nothing(options.select)) selected_.selection = all_keys(opened.catalog());
  else selected_ = select(opened, options.select, {.request = options.map, .assets = {}, .has_run = true}, world);
  ready_ = made(std::move(opened), selected_, options.select, world);
}

std::vector<PathPart> CheckpointReader::path(const Entry& e) const {
  if (e.count == 0) return source_path(catalog(), e);
  const std::span<const PathPart> path = selected_.selection.path(e);
  return {path.begin(), path.end()};
}

Opened CheckpointReader::opened() const {
  Opened opened = ready_.opened;
  opened.memory_cap = cap_of(extra_memory_);
  return opened;
}

void CheckpointReader::check(const Part& part) const {
  const Entry& e = entries()[part.entry];
  const Tensor& t = catalog().tensors[e.tensor()];
  const auto name = [](DType dtype) { return std::string(facts_of(dtype).name); };
  if (part.dtype == e.dtype) return;
  if (e.dtype != t.dtype)
    fail(ProblemId::usage, {.tensor = std::string(e.key)}, name(e.dtype) + ", chosen when it was opened, to " + name(part.dtype),
         "that dtype");
  if (!is_cast_target(part.dtype) || !is_cast_target(t.dtype))
    fail(ProblemId::usage, {.tensor = std::string(e.key)}, name(t.dtype) + " to " + name(part.dtype), "a floating-point tensor");
}

BoxView CheckpointReader::box_of(const Part& part, Numbers& offsets, Numbers& sizes) const {
  const Dims dims = catalog().dims(tensor_of(part));
  for (size_t d = 0; d < dims.size(); ++d) {
    offsets[d] = part.axes ? (*part.axes)[d].start : 0;
    sizes[d] = part.axes ? (*part.axes)[d].count : dims[d];
  }
  return {{offsets.data(), dims.size()}, {sizes.data(), dims.size()}};
}

// --- what is in the items

std::shared_ptr<const Resolved> CheckpointReader::known(const std::vector<Part>& parts, const Opened& opened, World& world,
                                                        uint64_t& bytes_read) {
  const Catalog& catalog = opened.catalog();
  std::unique_lock lock(mutex_);
  if (!known_) {
    Resolved none;
    none.items.resize(catalog.items.size());
    none.strides.push_back(0);
    known_ = std::make_shared<const Resolved>(std::move(none));
    whole_.resize(catalog.tensors.size());
  }
  const std::shared_ptr<const Resolved> before = known_;
  std::set<TensorId> unknown;
  Selection fresh;
  fresh.lacking = selected_.selection.lacking;  // who reads all that is there takes it for the whole
  std::vector<bool> files(catalog.files.size());
  for (const Part& p : parts) {
    const Tensor& t = tensor_of(p);
    const auto id = static_cast<TensorId>(&t - catalog.tensors.data());
    if (!whole_[id]) fresh.entries.push_back(entries()[p.entry]);
    whole_[id] = true;
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      const ItemId item = catalog.item_of(t, c);
      if (before->items[item].resolved || catalog.items[item].file == kNone || !is_needed(p, t, c)) continue;
      unknown.insert(id);
      files[catalog.items[item].file] = true;
    }
  }
  if (!fresh.entries.empty()) {
    try {
      check_selected(*opened.found, fresh, {.blobs = false});
    } catch (...) {
      whole_.assign(catalog.tensors.size(), false);
      throw;
    }
  }
  lock.unlock();
  if (unknown.empty()) return before;
  const Parts wanted{.tensors = {unknown.begin(), unknown.end()}, .blobs = {}};
  Resolved found = dcp::resolve(opened, {.parts = wanted, .only_files = &files, .data_follows = true}, world);
  compare_copies(opened, found, Faults::kThrow, world);
  bytes_read += found.bytes_read;
  lock.lock();
  keep(std::move(found));
  return known_;
}

bool CheckpointReader::is_needed(const Part& part, const Tensor& t, uint32_t chunk) const {
  const BoxView box = catalog().box(t, chunk);
  if (volume(box.sizes) == 0) return false;
  for (size_t d = 0; part.axes && d < t.rank; ++d) {
    const SliceAxis& axis = (*part.axes)[d];
    const int64_t end = axis.start + (axis.count - 1) * axis.step + 1;
    if (axis.count == 0 || axis.start >= box.offsets[d] + box.sizes[d] || end <= box.offsets[d]) return false;
  }
  return true;
}

void CheckpointReader::keep(Resolved found) {
  const Catalog& catalog = ready_.opened.catalog();
  Resolved all = *known_;
  const bool same_strides = catalog.traits().in_torch_files;  // those of the whole file
  if (same_strides) all.strides = std::move(found.strides);
  for (ItemId item = 0; item < found.items.size(); ++item) {
    ItemInfo& info = found.items[item];
    if (!info.resolved || all.items[item].resolved) continue;
    if (info.strides_at != 0 && !same_strides) {
      const auto stored = found.strides.begin() + static_cast<int64_t>(info.strides_at);
      info.strides_at = all.strides.size();
      all.strides.insert(all.strides.end(), stored, stored + 1 + catalog.tensor_of_chunk(item).rank);
    }
    all.items[item] = info;
  }
  all.blobs.merge(std::move(found.blobs));
  all.deflated.merge(std::move(found.deflated));
  known_ = std::make_shared<const Resolved>(std::move(all));
}

// --- reading

// A plan, and what it needs to be executed.
struct CheckpointReader::Work {
  std::optional<Derived> derived;
  Plan plan;
  PartsSink sink;
  uint64_t records_not_compared = 0;
};

// The parts as tensors of a checkpoint of their own.
Derived CheckpointReader::derived_of(const std::vector<Part>& parts, const SourceFacts& source) const {
  std::vector<IndexMap> maps;
  for (const Part& p : parts) {
    const Tensor& t = tensor_of(p);
    const auto id = static_cast<TensorId>(&t - catalog().tensors.data());
    maps.push_back(map_of(catalog(), id, p.axes ? *p.axes : Subscript().of(catalog().dims(t))));
  }
  return derive(source, has_map() ? maps::compose(maps, selected_.map->made.targets, limits()) : maps);
}

CheckpointReader::Report CheckpointReader::read(const std::vector<Part>& parts, unsigned threads, World& world) {
  Opened opened = this->opened();
  if (threads > 0) opened.request.threads = threads;
  Report report;
  for (const Part& p : parts) check(p);
  std::call_once(ties_once_, [&] {  // with a map
    compare_ties(ready_, selected_, reading_workers(opened.request.threads, world, catalog().path), world);
  });
  const auto found = has_map() ? nullptr : known(parts, opened, world, report.bytes_read);
  const SourceFacts source{opened.catalog(), found ? *found : ready_.resolved};

  // Boxes are read as they lie in the files. Every n-th index, what is compressed, and whole tensors that a map makes (whose CRCs are then
  // compared) are read as a derived checkpoint.
  const SourceFacts shown{catalog(), has_map() ? ready_.derived->resolved : source.resolved};
  std::vector<BoxRead> boxes;
  std::vector<Part> whole, others;
  Work of_boxes, of_whole, of_others;
  for (const Part& p : parts) {
    const bool steps = p.axes && std::ranges::any_of(*p.axes, [](const SliceAxis& a) { return a.step != 1 && a.count > 1; });
    if ((has_map() && !p.axes) || steps || !can_read_boxes(shown, tensor_of(p))) {
      (p.axes ? others : whole).push_back(p);
      continue;
    }
    const TensorId id = entries()[p.entry].tensor();
    refuse_opaque(shown, id);
    Numbers offsets, sizes;
    const BoxView box = box_of(p, offsets, sizes);
    boxes.push_back({.tensor = id, .offsets = {box.offsets.begin(), box.offsets.end()}, .sizes = {box.sizes.begin(), box.sizes.end()}});
    of_boxes.sink.add(p, tensor_of(p).dtype, box.sizes);
  }
  std::vector<Work*> work;
  if (!boxes.empty()) {
    of_boxes.plan = plan_boxes(shown, boxes, {});
    work.push_back(&of_boxes);
  }
  for (const auto& [derived, w] : {std::pair(&whole, &of_whole), {&others, &of_others}}) {
    if (derived->empty()) continue;
    plan_others(*derived, source, *w);
    work.push_back(w);
  }
  uint64_t total = 0;
  for (const Work* w : work) total += w->plan.bytes_to_read;
  Progress progress;
  const auto display = world.events.show(progress, progress.bytes_read, total);
  for (Work* w : work) {
    const Source from{w->derived ? w->derived->catalog : shown.catalog, w->derived ? w->derived->resolved : shown.resolved, *opened.files};
    uint64_t planned = 0;
    JoinedReads reads(w->plan, from);
    // One unit needs no thread of its own.
    const auto workers =
        static_cast<unsigned>(std::min<uint64_t>(fit(opened, w->plan, kMiB, world, planned), std::max<uint64_t>(w->plan.units, 1)));
    const ExecuteReport done = execute(w->plan, from, w->sink, {.workers = workers, .supply = &reads}, {progress, world.stop});
    refuse_damage(done.damage, world);
    report.bytes_read += reads.bytes_between();
    report.records_compared += done.records_checked;
    report.records_not_compared += w->records_not_compared + w->plan.unchecked_records;
  }
  report.bytes_read += progress.bytes_read;
  return report;
}

// Either all are whole tensors, whose CRCs are compared, or none is.
void CheckpointReader::plan_others(const std::vector<Part>& parts, const SourceFacts& source, Work& work) const {
  if (!has_map())
    for (const Part& p : parts) refuse_opaque(source, entries()[p.entry].tensor());
  work.derived = derived_of(parts, source);
  const Catalog& derived = work.derived->catalog;
  const bool whole = !parts.front().axes;
  Selection selection;
  for (uint32_t n = 0; n < parts.size(); ++n) {
    const Tensor& t = derived.tensors[n];
    selection.entries.push_back({.ref = KeyRef::tensor_at(n), .key = derived.key(t), .dtype = t.dtype});
    work.sink.add(parts[n], t.dtype, derived.dims(t));
  }
  work.plan = plan_arrays({derived, work.derived->resolved}, selection, ArrayForm::kRaw, {.plane_bytes = kMiB, .verify = whole});
  if (whole) return;
  const std::vector<uint32_t>& records = work.derived->resolved.views.record;
  work.records_not_compared = std::set(records.begin(), records.end()).size();
  work.plan.unchecked_records = 0;  // counted among these
}

// --- objects

Resolved CheckpointReader::resolve_objects(const Entry& object, const Opened& opened, World& world) {
  const Parts parts{.tensors = {}, .blobs = {object.blob()}};
  const Catalog& catalog = opened.catalog();
  check_item(catalog, catalog.item_of(object.blob()), object.key, "");
  return dcp::resolve(opened, {.parts = parts}, world);
}

BlobItem CheckpointReader::object(const Entry& e, World& world) {
  if (has_map()) return ready_.derived->resolved.blob(catalog().item_of(e.blob())).item;
  const Opened opened = this->opened();
  const Resolved resolved = resolve_objects(e, opened, world);
  return resolved.blob(catalog().item_of(e.blob())).item;
}

std::vector<std::byte> CheckpointReader::object_file(const Entry& e, World& world) {
  const Opened opened = this->opened();
  const Catalog& catalog = this->catalog();
  const ItemId id = catalog.item_of(e.blob());
  std::vector<std::byte> bytes;
  if (!has_map() && catalog.traits().has_metadata) {
    check_item(catalog, id, e.key, "");
    const Place place = catalog.place_of(id, e.key);
    decode_item(*opened.files, catalog.items[id], place, extra_memory_, [&](Bytes b) { bytes.insert(bytes.end(), b.begin(), b.end()); });
    MemorySource source(bytes);
    const ZipDirectory directory = open_blob_archive(source, place, limits()).directory;
    for (const ZipRecord& r : directory.records) check_record_crc(source, r, payload_of(source, directory, r, place), place);
    return bytes;
  }
  const Resolved found = has_map() ? Resolved{} : resolve_objects(e, opened, world);
  const Source source{catalog, has_map() ? ready_.derived->resolved : found, *opened.files};
  Selection selection;
  selection.entries = {{.ref = e.ref, .key = e.key}};
  LayoutOptions layout;
  layout.bare = true;
  const Plan plan = plan_torch(source, selection, layout);
  bytes.resize(plan.bytes_to_write);
  uint64_t planned = 0;
  BufferSink sink(bytes);
  execute_or_throw(plan, source, sink, {.workers = fit(opened, plan, kMiB, world, planned)}, world);
  return bytes;
}

}  // namespace dcp
