#include "ranks/catalog_wire.h"

#include <algorithm>
#include <bit>

#include "catalog/torch_files.h"
#include "ranks/wire.h"

namespace dcp {
namespace {

void need(bool holds) {
  if (!holds) WireReader::wrong();
}

bool lies_in(uint64_t first, uint64_t count, uint64_t size) { return first <= size && count <= size - first; }

template <class... Flag>
bool are_flags(const Flag&... flags) {
  return ((std::bit_cast<uint8_t>(flags) <= 1) && ...);
}

// Checks everything that is used as an index, and members of structs whose bytes could be values that their type does not allow.
void check(const Catalog& c) {
  const auto is_text = [&](StringId s) { return s < c.strings.size(); };
  const auto is_item = [&](const Item& i) {
    return (i.file == kNone || i.file < c.files.size()) &&
           (i.transforms == 0 || i.transforms == Item::kDeflated || i.transforms < c.transforms.size());
  };
  need(c.kind < CheckpointKind::kCount);
  for (const PathElement& e : c.path_elements) need(e.is_position() || is_text(e.name_id()));
  for (const Tensor& t : c.tensors) {
    need(is_text(t.key) && is_text(t.dtype_name) && lies_in(t.path.first, t.path.count, c.path_elements.size()));
    need(t.rank <= kMaxRank && t.dtype < DType::kCount && are_flags(t.dtype_known, t.strided, t.requires_grad));
    need(lies_in(t.dims_at, t.rank, c.numbers.size()) && lies_in(t.boxes_at, uint64_t{2} * t.rank * t.chunk_count, c.numbers.size()));
    need(lies_in(t.first_chunk, t.chunk_count, c.chunk_total));
  }
  for (const Blob& b : c.blobs) need(is_text(b.key) && lies_in(b.path.first, b.path.count, c.path_elements.size()));
  for (const KeyRef ref : c.order)
    need(ref.is_blob() ? static_cast<uint64_t>(~ref.raw) < c.blobs.size() : static_cast<uint64_t>(ref.raw) < c.tensors.size());
  need(c.items.size() == c.chunk_total + c.blobs.size() && std::ranges::all_of(c.items, is_item));
  for (const DataFile& f : c.files) need(is_text(f.name));
  for (const McoreShape& m : c.mcore_shapes) need(m.tensor < c.tensors.size() && lies_in(m.dims_at, m.rank, c.numbers.size()));
  for (const Duplicate& d : c.duplicates) need(d.item < c.items.size() && is_text(d.key) && is_item(d.other));
  need((c.saved_keys.empty() || c.saved_keys.size() == c.items.size()) && std::ranges::all_of(c.saved_keys, is_text));
  need(std::ranges::all_of(c.lacking, is_text));
  for (const ItemId i : c.named_twice) need(i < c.items.size());
}

void check(const Resolved& r, const Catalog& c) {
  for (const Tensor& t : c.tensors)
    for (uint32_t n = 0; n < t.chunk_count; ++n) {
      const ItemInfo& i = r.items[c.item_of(t, n)];
      need(i.strides_at == 0 || lies_in(i.strides_at, t.rank + uint64_t{1}, r.strides.size()));
    }
  for (const auto& [item, first] : r.shared) need(item < c.items.size() && first < c.items.size());
  for (const auto& [item, blob] : r.blobs) need(item < c.items.size());
  for (const auto& [item, source] : r.deflated)
    need(item < c.items.size() && source.file < c.files.size() && source.transforms == Item::kDeflated);
  for (const ItemRecord& i : r.records)
    need(i.item < c.items.size() && (i.duplicate == kNone || i.duplicate < c.duplicates.size()) && are_flags(i.has_crc, i.is_data));
}

}  // namespace

DCP_MEMBERS(ExtraAttribute, name, type, not_plain, is_dict, entries, value);
DCP_MEMBERS(Provenance, written_by, by_dcpctl, ranks, loads_in, why, format_version, packages, extra_attributes, attributes,
            unknown_globals);
DCP_MEMBERS(Catalog, kind, path, folder, single_file, strings, numbers, path_elements, tensors, blobs, order, items, chunk_total, files,
            transforms, has_planner_data, provenance, mcore_shapes, torch, duplicates, saved_keys, lacking, named_twice);
DCP_MEMBERS(OpenedCatalog, catalog, findings, unloadable);
DCP_MEMBERS(Item, offset, length, file, transforms);
DCP_MEMBERS(BlobItem::Storage, key, payload, bytes, packed, crc, has_crc);
DCP_MEMBERS(BlobItem, pickle, packed_pickle, pickle_place, storages, big_endian);
DCP_MEMBERS(ResolvedBlob, item, decoded);
DCP_MEMBERS(Resolved, items, strides, blobs, deflated, shared, bytes_read, views, findings, records, records_checked, records_without_crc,
            data_records, data_bytes);

// Each rank determines sizes and faults for itself (FileVisibility). What is opened has one folder.
template <class Wire, class File>
  requires std::same_as<std::remove_const_t<File>, DataFile>
void transfer(Wire& wire, File& file) {
  auto& [name, folder, bytes, fault, raw] = file;
  wire(name);
  wire(raw);
}

// Stays with rank 0, which has opened the files and alone resolves their items (RankGroup::resolve).
template <class Wire>
void transfer(Wire&, const std::shared_ptr<const TorchFiles>&) {}

// Every rank derives views for itself, from what all have resolved.
void transfer(WireWriter&, const Views&) {}

void transfer(WireWriter& out, const Strings& strings) {
  out.number<uint64_t>(strings.size());
  for (StringId s = 0; s < strings.size(); ++s) out.text(strings[s]);
}
void transfer(WireReader& in, Strings& strings) {
  const uint64_t count = in.count();
  for (uint64_t s = 0; s < count; ++s)
    if (strings.intern(in.text()) != s) WireReader::wrong();
}
void transfer(WireReader& in, std::vector<PathElement>& elements) { elements = in.array<PathElement>(PathElement::name(0)); }

std::vector<std::byte> catalog_to_wire(const OpenedCatalog& opened) {
  WireWriter out;
  out(opened);
  return out.take();
}

OpenedCatalog catalog_from_wire(Bytes bytes) {
  WireReader in(bytes);
  OpenedCatalog opened;
  in(opened);
  check(opened.catalog);
  return opened;
}

// Only resolved items are sent: on most ranks there are few.
void transfer(WireWriter& out, const std::vector<ItemInfo>& items) {
  out.number<uint64_t>(static_cast<uint64_t>(std::ranges::count(items, true, &ItemInfo::resolved)));
  for (ItemId i = 0; i < items.size(); ++i) {
    if (!items[i].resolved) continue;
    out.number(i);
    out.number(items[i]);
  }
}

std::vector<std::byte> resolved_to_wire(const Resolved& resolved) {
  WireWriter out;
  out(resolved);
  return out.take();
}

namespace {

// Merges what another rank has resolved into each member.
class Merger {
 public:
  // The received list of strides is appended to the existing one, so strides of received items are `strides_at` further on.
  Merger(WireReader& in, uint64_t strides_at) : in_(in), strides_at_(strides_at) {}

  void operator()(std::vector<ItemInfo>& items) const {
    for (auto count = in_.number<uint64_t>(); count > 0; --count) {
      const auto id = in_.number<ItemId>();
      auto info = in_.number<ItemInfo>();
      need(id < items.size() && info.dtype < DType::kCount &&
           are_flags(info.resolved, info.opaque, info.has_crc, info.swap, info.conj, info.neg));
      if (info.strides_at != 0) info.strides_at += strides_at_;
      if (!items[id].resolved) items[id] = info;
    }
  }
  template <class T>
  void operator()(std::vector<T>& all) const {
    std::vector<T> more;
    in_(more);
    all.insert(all.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
  }
  template <class T>
  void operator()(std::map<ItemId, T>& all) const {
    in_(all);  // an existing entry is kept
  }
  void operator()(Views&) const {}
  void operator()(uint64_t& sum) const { sum += in_.number<uint64_t>(); }

 private:
  WireReader& in_;
  uint64_t strides_at_;
};

}  // namespace

void merge_resolved(Resolved& into, const Catalog& catalog, Bytes bytes) {
  WireReader in(bytes);
  into.items.resize(catalog.items.size());
  if (into.strides.empty()) into.strides.push_back(0);
  for_each_member(into, Merger(in, into.strides.size()));
  check(into, catalog);
}

}  // namespace dcp
