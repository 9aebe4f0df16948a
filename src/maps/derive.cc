#include "maps/derive.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "catalog/box.h"
#include "catalog/catalog.h"
#include "maps/optimizer_form.h"
#include "maps/run_keys.h"
#include "maps/run_state.h"

namespace dcp {
namespace {

// One axis of a block, as one of its sides sees it: in the order that Views has, with its place in the block.
struct SideAxis {
  ViewAxis axis;
  size_t of = 0;
};
using Side = std::vector<SideAxis>;

Side side_of(const IndexBlock& block, uint32_t IndexAxis::* dim, int64_t IndexAxis::* step) {
  Side side;
  for (size_t a = 0; a < block.axes.size(); ++a) {
    const IndexAxis& axis = block.axes[a];
    if (axis.size != 1) side.push_back({{.size = axis.size, .step = axis.*step, .dim = axis.*dim}, a});
  }
  std::ranges::stable_sort(side, {}, [](const SideAxis& s) { return std::pair(s.axis.dim, -s.axis.step); });
  return side;
}

// Axes of one dim nest, and all that they reach lies inside the shape.
bool is_sound(const Side& side, std::span<const int64_t> at, Dims shape) {
  if (at.size() != shape.size()) return false;
  std::vector<int64_t> reach(at.size(), 1);
  for (size_t i = side.size(); i-- > 0;) {
    const ViewAxis& a = side[i].axis;
    if (a.dim >= at.size() || a.size < 1 || a.step < reach[a.dim]) return false;
    const auto more = static_cast<int64_t>(mul_or_fail(static_cast<uint64_t>(a.size - 1), static_cast<uint64_t>(a.step), {}));
    if (more > shape[a.dim] - reach[a.dim]) return false;
    reach[a.dim] += more;
  }
  for (size_t d = 0; d < at.size(); ++d)
    if (at[d] < 0 || at[d] > shape[d] - reach[d]) return false;
  return true;
}

class Deriver {
 public:
  explicit Deriver(const SourceFacts& source) : from_(source.catalog), resolved_(source.resolved) {
    const Catalog& from = source.catalog;
    Catalog& c = out_.catalog = catalog_over_files_of(from);
    c.has_planner_data = true;
    c.provenance = from.provenance;
    c.provenance.attributes.clear();  // what they say of keys says nothing of these
    c.provenance.extra_attributes.clear();
    out_.resolved.strides.push_back(0);
    first_.resize(from.items.size(), kNone);
  }

  Derived run(std::span<const IndexMap> maps) {
    for (const IndexMap& m : maps) tensor(m);
    out_.catalog.chunk_total = narrow<uint32_t>(out_.catalog.items.size());
    return std::move(out_);
  }

 private:
  // A chunk of the tensor that is being made.
  struct Chunk {
    std::vector<int64_t> offsets, sizes;
    ItemId item = 0;         // of the source
    StringId saved_key = 0;  // in the derived catalog
    uint64_t first = 0;
    std::vector<ViewAxis> axes;
  };

  void tensor(const IndexMap& m) {
    Catalog& c = out_.catalog;
    chunks_.clear();
    uint64_t given = 0;
    bool padded = false, sharded = false;
    for (const IndexBlock& b : m.blocks) {
      given += block(m, b);
      padded = padded || b.source == IndexBlock::kZeros;
      sharded = sharded || (b.source != IndexBlock::kZeros && was_sharded(from_.tensors[b.source]));
    }
    if (given != volume(m.shape)) wrong(m);
    std::ranges::stable_sort(chunks_, {}, &Chunk::offsets);
    const StringId key = c.strings.intern(m.key);
    const auto path = narrow<uint32_t>(c.path_elements.size());
    if (m.path.empty()) c.path_elements.push_back(PathElement::name(key));
    for (const std::string& part : m.path) c.path_elements.push_back(PathElement::name(c.strings.intern(part)));
    c.order.push_back(KeyRef::tensor_at(c.tensors.size()));
    c.tensors.push_back({.key = key,
                         .dtype_name = c.strings.intern(facts_of(m.dtype).name),
                         .path = {path, narrow<uint32_t>(c.path_elements.size()) - path},
                         .dtype = m.dtype,
                         .requires_grad = m.requires_grad,
                         .rank = narrow<uint8_t>(m.shape.size()),
                         .dims_at = c.numbers.size(),
                         .boxes_at = c.numbers.size() + m.shape.size(),
                         .first_chunk = narrow<uint32_t>(c.items.size()),
                         .chunk_count = narrow<uint32_t>(chunks_.size())});
    c.numbers.insert(c.numbers.end(), m.shape.begin(), m.shape.end());
    for (const Chunk& chunk : chunks_) add(chunk);
    out_.resolved.views.padded.push_back(padded);
    out_.resolved.views.sharded.push_back(sharded);
  }

  // Not one chunk that is the whole tensor.
  bool was_sharded(const Tensor& t) const { return t.chunk_count != 1 || !std::ranges::equal(from_.box(t, 0).sizes, from_.dims(t)); }

  [[noreturn]] void wrong(const IndexMap& m) const {
    fail(ProblemId::internal, {.path = from_.path, .tensor = m.key}, "a map whose blocks do not fit");
  }

  // The elements of the target that it gives.
  uint64_t block(const IndexMap& m, const IndexBlock& b) {
    const Side target = side_of(b, &IndexAxis::target_dim, &IndexAxis::target_step);
    if (!is_sound(target, b.target_at, m.shape)) wrong(m);
    uint64_t elements = 1;
    for (const SideAxis& s : target) elements = mul_or_fail(elements, static_cast<uint64_t>(s.axis.size), {});
    if (target.size() > kMaxRank)
      fail(ProblemId::over_limit, {.path = from_.path, .tensor = m.key}, std::to_string(target.size()) + " axes",
           std::to_string(kMaxRank) + " at most");
    if (b.source == IndexBlock::kZeros) {
      Chunk zeros{.offsets = b.target_at,
                  .sizes = std::vector<int64_t>(m.shape.size(), 1),
                  .item = kNone,
                  .saved_key = out_.catalog.strings.intern(m.key),
                  .axes = {}};
      for (const SideAxis& s : target) add_axis(zeros, s.axis);
      chunks_.push_back(std::move(zeros));
      return elements;
    }
    const Tensor& t = from_.tensors.at(b.source);
    const Side source = side_of(b, &IndexAxis::source_dim, &IndexAxis::source_step);
    if (!is_sound(source, b.source_at, from_.dims(t))) wrong(m);
    std::vector<ViewAxis> axes;
    std::vector<int64_t> reach(t.rank, 1);
    for (const SideAxis& s : source) {
      axes.push_back(s.axis);
      reach[s.axis.dim] += (s.axis.size - 1) * s.axis.step;
    }
    const auto offsets_of = [&](uint32_t n) { return from_.box(t, n).offsets; };
    const SortedBoxes chunks{0, t.chunk_count, largest_chunk(b.source).data(), offsets_of};
    visit_overlaps(chunks, BoxView{b.source_at, reach}, [&](uint32_t n) {
      if (const BoxView box = from_.box(t, n); volume(box.sizes) > 0)
        cut_axes(axes, b.source_at, box, [&](const AxisBox& cut) { piece({m, b, source, target}, t, n, cut); });
    });
    return elements;
  }

  // Of a source, the largest extents of its chunks.
  const std::vector<int64_t>& largest_chunk(TensorId id) {
    const auto [known, fresh] = largest_.try_emplace(id);
    std::vector<int64_t>& largest = known->second;
    if (fresh) {
      const Tensor& t = from_.tensors[id];
      largest.resize(t.rank, 0);
      for (uint32_t n = 0; n < t.chunk_count; ++n)
        for (size_t d = 0; d < t.rank; ++d) largest[d] = std::max(largest[d], from_.box(t, n).sizes[d]);
    }
    return largest;
  }

  // A box of the block's axes that lies in one chunk of the source becomes a chunk of the target.
  struct SidedBlock {
    const IndexMap& map;
    const IndexBlock& block;
    const Side &source, &target;
  };
  void piece(const SidedBlock& of, const Tensor& t, uint32_t n, const AxisBox& cut) {
    const auto& [m, b, source, target] = of;
    const ItemId item = from_.item_of(t, n);
    const ItemInfo& info = resolved_.items[item];
    if (!info.resolved) fail(ProblemId::internal, {.path = from_.path, .tensor = m.key}, "an item that is not resolved");
    if (info.opaque) fail(ProblemId::map_quantized, from_.place_of(item, from_.key(t)));
    const BoxView box = from_.box(t, n);
    Numbers strides = row_major(box.sizes);
    Chunk chunk{.offsets = b.target_at,
                .sizes = std::vector<int64_t>(m.shape.size(), 1),
                .item = item,
                .saved_key = out_.catalog.strings.intern(from_.key(t)),
                .axes = {}};
    if (info.strides_at != 0) {
      const int64_t* stored = resolved_.strides.data() + info.strides_at;
      chunk.first = static_cast<uint64_t>(stored[0]);
      std::copy_n(stored + 1, t.rank, strides.begin());
    }
    for (size_t d = 0; d < t.rank; ++d) chunk.first += static_cast<uint64_t>((b.source_at[d] - box.offsets[d]) * strides[d]);
    // By place in the block.
    std::vector<int64_t> first(b.axes.size()), count(b.axes.size(), 1), stride(b.axes.size());
    for (size_t i = 0; i < source.size(); ++i) {
      const SideAxis& s = source[i];
      first[s.of] = cut.first[i];
      count[s.of] = cut.count[i];
      stride[s.of] = s.axis.step * strides[s.axis.dim];
      chunk.first += static_cast<uint64_t>(cut.first[i] * stride[s.of]);
    }
    for (const SideAxis& s : target) {
      const auto [size, step, unused, dim] = s.axis;
      chunk.offsets[dim] += first[s.of] * step;
      add_axis(chunk, {.size = count[s.of], .step = step, .stride = stride[s.of], .dim = dim});
    }
    chunks_.push_back(std::move(chunk));
  }

  static void add_axis(Chunk& chunk, const ViewAxis& axis) {
    if (axis.size == 1) return;
    chunk.sizes[axis.dim] += (axis.size - 1) * axis.step;
    if (!chunk.axes.empty() && continues(chunk.axes.back(), axis)) {
      const int64_t outer = chunk.axes.back().size;
      chunk.axes.back() = axis;
      chunk.axes.back().size *= outer;
    } else {
      chunk.axes.push_back(axis);
    }
  }

  // Both count as one axis does.
  static bool continues(const ViewAxis& outer, const ViewAxis& inner) {
    return outer.dim == inner.dim && outer.step == inner.step * inner.size && outer.stride == inner.stride * inner.size;
  }

  void add(const Chunk& chunk) {
    Catalog& c = out_.catalog;
    Resolved& r = out_.resolved;
    const auto item = narrow<ItemId>(c.items.size());
    c.numbers.insert(c.numbers.end(), chunk.offsets.begin(), chunk.offsets.end());
    c.numbers.insert(c.numbers.end(), chunk.sizes.begin(), chunk.sizes.end());
    const bool zeros = chunk.item == kNone;
    const Item source = zeros ? Item() : source_of({from_, resolved_}, chunk.item);
    c.saved_keys.push_back(chunk.saved_key);
    c.items.push_back(zeros ? source : from_.items[chunk.item]);
    if (source.transforms == Item::kDeflated) r.deflated.emplace(item, source);
    ItemInfo info = zeros ? ItemInfo{.dtype = c.tensors.back().dtype, .resolved = true} : resolved_.items[chunk.item];
    info.strides_at = 0;
    View view;
    if (!lie_as_box(chunk, r.strides, info)) {
      view = {.first = chunk.first, .axes_at = r.views.axes.size(), .axis_count = narrow<uint32_t>(chunk.axes.size())};
      r.views.axes.insert(r.views.axes.end(), chunk.axes.begin(), chunk.axes.end());
    }
    r.views.of.push_back(view);
    r.items.push_back(info);
    r.views.record.push_back(zeros ? item : first_of_record(chunk.item, item));
  }

  // The first chunk in the record of an item; `item`, if there was none. Tensors of a torch.save file may share a record.
  ItemId first_of_record(ItemId of_source, ItemId item) {
    if (from_.traits().in_torch_files)
      return shared_.try_emplace({from_.items[of_source].file, resolved_.items[of_source].record}, item).first->second;
    if (first_[of_source] == kNone) first_[of_source] = item;
    return first_[of_source];
  }

  // Whether the chunk is a box of its record with strides of its own, as any chunk is that torch saved. Then they are added.
  bool lie_as_box(const Chunk& chunk, std::vector<int64_t>& strides, ItemInfo& info) const {
    std::vector<int64_t> of_dim(chunk.sizes.size(), 0);
    for (const ViewAxis& a : chunk.axes) {
      if (a.step != 1 || of_dim[a.dim] != 0 || a.stride == 0) return false;
      of_dim[a.dim] = a.stride;
    }
    const Numbers dense = row_major(chunk.sizes);
    bool is_dense = chunk.first == 0;
    for (size_t d = 0; d < of_dim.size(); ++d) is_dense = is_dense && (chunk.sizes[d] == 1 || of_dim[d] == dense[d]);
    if (is_dense) return true;
    info.strides_at = strides.size();
    strides.push_back(static_cast<int64_t>(chunk.first));
    strides.insert(strides.end(), of_dim.begin(), of_dim.end());
    return true;
  }

  const Catalog& from_;
  const Resolved& resolved_;
  Derived out_;
  std::vector<Chunk> chunks_;
  std::unordered_map<TensorId, std::vector<int64_t>> largest_;  // by source
  std::vector<ItemId> first_;                                   // by item of the source
  std::map<std::pair<uint32_t, uint64_t>, ItemId> shared_;      // by file and place of the record
};

}  // namespace

Derived derive(const SourceFacts& source, std::span<const IndexMap> maps) { return Deriver(source).run(maps); }

namespace {

BlobItem made_object(std::string_view pickle, Place place) {
  BlobItem made{.pickle = {}, .pickle_place = std::move(place), .storages = {}};
  made.pickle.assign(as_bytes(pickle).begin(), as_bytes(pickle).end());
  return made;
}

class ObjectDeriver {
 public:
  ObjectDeriver(const SourceFacts& source, const maps::RunState& run, Derived& derived)
      : from_(source.catalog), resolved_(source.resolved), run_(run), to_(derived) {}

  void run() {
    for (const maps::ObjectMap& o : run_.objects) {
      for (const BlobId other : o.same) check_same(o, other);
      if (!o.each_of) {
        add(o);
        continue;
      }
      for (const maps::Becomes* b : in_list(*o.each_of)) {
        maps::ObjectMap one = o;
        one.each_of.reset();
        put_name(one.key, b->key);
        for (std::string& part : one.path) put_name(part, b->key);
        add(one);
      }
    }
  }

 private:
  static void put_name(std::string& text, const std::string& name) {
    if (const size_t at = text.find("{name}"); at != text.npos) text.replace(at, 6, name);
  }

  void add(const maps::ObjectMap& o) {
    const BlobId blob = o.same.front();
    const ItemId source = from_.item_of(blob);
    Resolved& r = to_.resolved;
    const auto item = narrow<ItemId>(to_.catalog.items.size());
    if (o.lists_parameters) r.blobs[item].item = list(blob);
    else if (const auto [first, is_new] = first_.try_emplace(resolved_.first_of(source), item); is_new)
      r.blobs.emplace(item, resolved_.blob(source));
    else r.shared.emplace(item, first->second);
    to_.catalog.items.push_back(o.lists_parameters ? Item() : from_.items[source]);
    to_.catalog.saved_keys.push_back(to_.catalog.strings.intern(from_.key(from_.blobs[blob])));
    r.items.emplace_back();
    r.views.of.emplace_back();
    r.views.record.push_back(item);
    name(o, from_.blobs[blob]);
  }

  void name(const maps::ObjectMap& o, const Blob& source) {
    Catalog& c = to_.catalog;
    const auto first = narrow<uint32_t>(c.path_elements.size());
    for (const std::string& part : o.path) c.path_elements.push_back(PathElement::name(c.strings.intern(part)));
    for (uint32_t i = source.path.first; o.path.empty() && i < source.path.first + source.path.count; ++i) {
      const PathElement p = from_.path_elements[i];
      const auto text = [&] { return c.strings.intern(from_.strings[p.name_id()]); };
      c.path_elements.push_back(p.is_position() ? p : p.is_integer() ? PathElement::integer_name(text()) : PathElement::name(text()));
    }
    const StringId key = c.strings.intern(o.key);
    if (c.path_elements.size() == first) c.path_elements.push_back(PathElement::name(key));
    c.order.push_back(KeyRef::blob_at(c.blobs.size()));
    c.blobs.push_back({.key = key, .path = {first, narrow<uint32_t>(c.path_elements.size()) - first}});
  }

  std::string_view key(BlobId blob) const { return from_.key(from_.blobs[blob]); }
  const BlobItem& item(BlobId blob) const { return resolved_.blob(from_.item_of(blob)).item; }

  void check_same(const maps::ObjectMap& o, BlobId other) const {
    const BlobItem &one = item(o.same.front()), &its = item(other);
    if (std::ranges::equal(one.pickle, its.pickle) && (one.storages.empty() || other == o.same.front())) return;
    throw Error(
        maps::state_differs(from_, KeyRef::blob_at(other), "a value different from that of " + shortened(key(o.same.front())), o.key));
  }

  // The names in a list.
  std::set<std::string, std::less<>> names_in(BlobId blob) const {
    const maps::ParameterList list = maps::read_parameters({from_, resolved_}, blob, ProblemId::map_key_unmapped, limits_);
    if (list.are_numbers)
      fail(ProblemId::map_key_unmapped, {.path = from_.path, .tensor = std::string(key(blob)), .object = true},
           "a parameter as the int " + list.names.front(), "a list of names, as torch's get_optimizer_state_dict gives it");
    std::set<std::string, std::less<>> names;
    for (const std::string& name : list.names) names.insert(maps::unwrapped(name));
    return names;
  }

  // What the parameters of a list become.
  std::vector<const maps::Becomes*> in_list(BlobId blob) const {
    const std::set<std::string, std::less<>> names = names_in(blob);
    std::vector<const maps::Becomes*> all;
    for (const maps::Becomes& b : run_.becomes) {
      const auto has = [&](const std::string& name) { return names.contains(name); };
      if (std::ranges::none_of(b.from, has)) continue;
      if (const auto lacks = std::ranges::find_if_not(b.from, has); lacks != b.from.end())
        throw Error(maps::state_differs(from_, KeyRef::blob_at(blob), "not " + shortened(*lacks), b.key));
      all.push_back(&b);
    }
    return all;
  }

  BlobItem list(BlobId blob) const {
    std::vector<std::string> names;
    for (const maps::Becomes* b : in_list(blob)) names.push_back(b->key);
    return made_object(maps::list_of_parameters(names), item(blob).pickle_place);
  }

  const Catalog& from_;
  const Resolved& resolved_;
  const maps::RunState& run_;
  Derived& to_;
  const Limits limits_{};
  std::unordered_map<ItemId, ItemId> first_;  // by item of the source
};

}  // namespace

void add_objects(const SourceFacts& source, const maps::RunState& run, Derived& derived) { ObjectDeriver(source, run, derived).run(); }

Derived with_objects(const SourceFacts& source, std::span<const NewObject> objects) {
  Derived derived{source.catalog, source.resolved};
  Catalog& c = derived.catalog;
  for (const NewObject& o : objects) {
    derived.resolved.blobs[narrow<ItemId>(c.items.size())].item = made_object(o.pickle, {.path = c.path, .tensor = o.key, .object = true});
    c.order.push_back(KeyRef::blob_at(c.blobs.size()));
    c.blobs.push_back({.key = c.strings.intern(o.key), .path = {}});
    c.items.emplace_back();
    derived.resolved.items.emplace_back();
  }
  return derived;
}

namespace {

// Items of chunks come before those of objects, whose numbers change.
class Joiner {
 public:
  Joiner(const SourceFacts& source, const SourceFacts& other)
      : from_(other.catalog),
        resolved_(other.resolved),
        first_file_(narrow<uint32_t>(source.catalog.files.size())),
        out_{source.catalog, source.resolved} {
    Catalog& c = out_.catalog;
    if (c.transforms.empty()) c.transforms.emplace_back();
    first_transform_ = narrow<uint32_t>(c.transforms.size());
    c.transforms.insert(c.transforms.end(), from_.transforms.begin(), from_.transforms.end());
    if (out_.resolved.strides.empty()) out_.resolved.strides.push_back(0);
    for (uint32_t f = 0; f < from_.files.size(); ++f) {
      DataFile file = from_.files[f];
      file.name = c.strings.intern(from_.single_file ? std::string_view(from_.path) : from_.file_name(f));
      file.folder = c.strings.intern(from_.single_file ? std::string_view() : std::string_view(from_.folder));
      c.files.push_back(std::move(file));
    }
  }

  Derived run(std::span<const TensorId> tensors) {
    for (const TensorId id : tensors) add(from_.tensors[id]);
    insert();
    return std::move(out_);
  }

 private:
  void add(const Tensor& t) {
    Catalog& c = out_.catalog;
    Tensor its = t;
    its.key = c.strings.intern(from_.key(t));
    its.dtype_name = c.strings.intern(from_.strings[t.dtype_name]);
    its.path = {};
    its.dims_at = c.numbers.size();
    its.boxes_at = its.dims_at + t.rank;
    its.first_chunk = c.chunk_total + narrow<uint32_t>(items_.size());
    c.numbers.insert(c.numbers.end(), from_.dims(t).begin(), from_.dims(t).end());
    const int64_t* const boxes = from_.numbers.data() + t.boxes_at;
    c.numbers.insert(c.numbers.end(), boxes, boxes + uint64_t{t.chunk_count} * 2 * t.rank);
    c.order.push_back(KeyRef::tensor_at(c.tensors.size()));
    c.tensors.push_back(its);
    for (uint32_t n = 0; n < t.chunk_count; ++n) add(from_.item_of(t, n), its);
    if (!out_.resolved.views.any()) return;
    out_.resolved.views.padded.push_back(false);
    out_.resolved.views.sharded.push_back(t.chunk_count != 1);
  }

  Item here(Item item) const {
    if (item.file != kNone) item.file += first_file_;
    if (item.transforms != 0 && item.transforms != Item::kDeflated) item.transforms += first_transform_;
    return item;
  }

  void add(ItemId item, const Tensor& its) {
    const ItemId here_at = out_.catalog.chunk_total + narrow<uint32_t>(items_.size());
    if (const auto deflated = resolved_.deflated.find(item); deflated != resolved_.deflated.end())
      out_.resolved.deflated.emplace(here_at, here(deflated->second));
    ItemInfo info = resolved_.items[item];
    if (info.strides_at != 0) {
      const auto at = resolved_.strides.begin() + static_cast<ptrdiff_t>(info.strides_at);
      info.strides_at = out_.resolved.strides.size();
      out_.resolved.strides.insert(out_.resolved.strides.end(), at, at + 1 + its.rank);
    }
    items_.push_back(here(from_.items[item]));
    infos_.push_back(info);
    keys_.push_back(its.key);
    records_.push_back(here_at);
  }

  template <class T>
  void insert(std::vector<T>& all, const std::vector<T>& more) const {
    all.insert(all.begin() + out_.catalog.chunk_total, more.begin(), more.end());
  }

  void insert() {
    Catalog& c = out_.catalog;
    Resolved& r = out_.resolved;
    const auto more = narrow<uint32_t>(items_.size());
    const auto moved = [&](ItemId item) { return item < c.chunk_total ? item : item + more; };
    for (Duplicate& d : c.duplicates) d.item = moved(d.item);
    for (ItemId& item : c.named_twice) item = moved(item);
    std::map<ItemId, ResolvedBlob> blobs;
    for (auto& [item, blob] : r.blobs) blobs.emplace(moved(item), std::move(blob));
    r.blobs = std::move(blobs);
    std::map<ItemId, ItemId> shared;
    for (const auto& [item, first] : r.shared) shared.emplace(moved(item), moved(first));
    r.shared = std::move(shared);
    for (ItemId& record : r.views.record) record = moved(record);
    insert(c.items, items_);
    insert(r.items, infos_);
    if (!c.saved_keys.empty()) insert(c.saved_keys, keys_);
    if (r.views.any()) {
      insert(r.views.of, std::vector<View>(more));
      insert(r.views.record, records_);
    }
    c.chunk_total += more;
  }

  const Catalog& from_;
  const Resolved& resolved_;
  const uint32_t first_file_;
  uint32_t first_transform_ = 0;
  Derived out_;
  std::vector<Item> items_;
  std::vector<ItemInfo> infos_;
  std::vector<StringId> keys_;
  std::vector<uint32_t> records_;
};

}  // namespace

Derived with_tensors(const SourceFacts& source, const SourceFacts& other, std::span<const TensorId> tensors) {
  return Joiner(source, other).run(tensors);
}

}  // namespace dcp
