#include "app/read.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "app/resources.h"
#include "catalog/structure.h"
#include "format/blob.h"
#include "items/item_source.h"
#include "plan/layout.h"

namespace dcp {

void BufferSink::write(uint32_t, uint64_t offset, Bytes bytes) { std::ranges::copy(bytes, to_.subspan(offset, bytes.size()).begin()); }

namespace {

// One file for each part: row-major there, with the caller's strides in memory.
class PartsSink final : public Sink {
 public:
  explicit PartsSink(const std::vector<CheckpointReader::Part>& parts, const std::vector<std::vector<int64_t>>& shapes) {
    for (size_t n = 0; n < parts.size(); ++n) {
      Target t{.to = parts[n].to, .run = bytes_of(parts[n].dtype), .sizes = shapes[n], .strides = parts[n].strides};
      while (!t.sizes.empty() && (t.strides.back() == static_cast<int64_t>(t.run) || t.sizes.back() == 1)) {
        t.run *= static_cast<uint64_t>(t.sizes.back());
        t.sizes.pop_back();
        t.strides.pop_back();
      }
      targets_.push_back(std::move(t));
    }
  }
  void write(uint32_t file, uint64_t offset, Bytes bytes) override {
    const Target& t = targets_[file];
    std::vector<int64_t> index(t.sizes.size());
    uint64_t run = offset / t.run;
    for (size_t d = t.sizes.size(); d-- > 0; run /= static_cast<uint64_t>(t.sizes[d]))
      index[d] = static_cast<int64_t>(run % static_cast<uint64_t>(t.sizes[d]));
    for (uint64_t in_run = offset % t.run; !bytes.empty(); in_run = 0) {
      int64_t at = static_cast<int64_t>(in_run);
      for (size_t d = 0; d < index.size(); ++d) at += index[d] * t.strides[d];
      const Bytes piece = bytes.first(std::min<uint64_t>(bytes.size(), t.run - in_run));
      std::memcpy(t.to + at, piece.data(), piece.size());
      bytes = bytes.subspan(piece.size());
      for (size_t d = index.size(); d-- > 0 && ++index[d] == t.sizes[d];) index[d] = 0;
    }
  }
  void finish() override {}
  void commit() override {}
  void abort() noexcept override {}

 private:
  struct Target {
    std::byte* to;
    uint64_t run;                         // bytes that follow each other in memory
    std::vector<int64_t> sizes, strides;  // of the dims around it
  };
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
  Opened opened = open({.source = options.source, .ranks = {}, .threads = options.threads}, take_memory_cap(cap(), world), world);
  if (!options.map.is_given() && asks_for_nothing(options.select)) selected_.selection = all_keys(opened.catalog());
  else selected_ = select(opened, options.select, {.request = options.map, .assets = {}, .has_run = false}, world);
  ready_ = made(std::move(opened), selected_, options.select, world);
}

std::vector<PathPart> CheckpointReader::path(const Entry& e) const {
  if (e.count == 0) return source_path(catalog(), e);
  const std::span<const PathPart> path = selected_.selection.path(e);
  return {path.begin(), path.end()};
}

Opened CheckpointReader::opened() const {
  Opened opened = ready_.opened;
  opened.memory_cap = cap();
  return opened;
}

// Where the elements of each part come from in the source.
std::vector<IndexMap> CheckpointReader::maps_of(const std::vector<Part>& parts) const {
  std::vector<IndexMap> maps;
  for (const Part& p : parts) {
    const TensorId id = entries()[p.entry].tensor();
    maps.push_back(map_of(catalog(), id, p.axes ? *p.axes : Subscript().of(catalog().dims(catalog().tensors[id]))));
  }
  return has_map() ? maps::compose(maps, selected_.map->made.targets, limits()) : maps;
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

CheckpointReader::Report CheckpointReader::read(const std::vector<Part>& parts, unsigned threads, World& world) {
  Opened opened = this->opened();
  if (threads > 0) opened.request.threads = threads;
  const bool all_whole = std::ranges::none_of(parts, [](const Part& p) { return p.axes.has_value(); });
  for (const Part& p : parts) check(p);
  Resolved resolved;
  if (!has_map()) {
    Selection selection;
    std::set<TensorId> tensors;
    std::vector<bool> files(opened.catalog().files.size());
    for (const Part& p : parts) {
      const TensorId id = entries()[p.entry].tensor();
      if (tensors.insert(id).second) selection.entries.push_back(entries()[p.entry]);
      const std::vector<bool> of =
          files_of(opened.catalog(), id, p.axes ? *p.axes : Subscript().of(opened.catalog().dims(opened.catalog().tensors[id])));
      for (size_t f = 0; f < files.size(); ++f) files[f] = files[f] || of[f];
    }
    const Parts from = check_selected(*opened.found, selection, {.blobs = false});
    resolved = dcp::resolve(opened, {.parts = from}, world);
    compare_copies(opened, resolved, Faults::kThrow, world);
  }
  const Resolved& facts = has_map() ? ready_.resolved : resolved;
  const SourceFacts source{opened.catalog(), facts};
  const std::vector<IndexMap> maps = maps_of(parts);
  for (const IndexMap& m : maps)
    for (const IndexBlock& b : m.blocks)
      if (b.source != IndexBlock::kZeros) refuse_opaque(source, b.source);
  const Derived derived = derive(source, maps);
  Selection selection;
  std::vector<std::vector<int64_t>> shapes;
  for (uint32_t n = 0; n < parts.size(); ++n) {
    selection.entries.push_back(
        {.ref = KeyRef::tensor_at(n), .key = derived.catalog.key(derived.catalog.tensors[n]), .dtype = parts[n].dtype});
    shapes.push_back(maps[n].shape);
  }
  const Source from{derived.catalog, derived.resolved, *opened.files};
  const Plan plan = plan_arrays(from, selection, ArrayForm::kRaw, {.plane_bytes = kMiB, .verify = all_whole});
  uint64_t planned = 0;
  const unsigned workers = fit(opened, plan, kMiB, world, planned);
  PartsSink sink(parts, shapes);
  Progress progress;
  const auto display = world.events.show(progress, progress.bytes_read, plan.bytes_to_read);
  const ExecuteReport done = execute(plan, from, sink, {.workers = workers}, {progress, world.stop});
  refuse_damage(done.damage, world);
  return {.bytes_read = done.bytes_read + resolved.bytes_read, .records_compared = done.records_checked, .records_not_compared = 0};
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
