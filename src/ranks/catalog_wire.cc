#include "ranks/catalog_wire.h"

#include <algorithm>
#include <bit>

#include "exec/worker.h"
#include "ranks/wire.h"

namespace dcp {
namespace {

void write_texts(WireWriter& out, const std::vector<std::string>& texts) {
  out.number<uint64_t>(texts.size());
  for (const std::string& t : texts) out.text(t);
}

std::vector<std::string> read_texts(WireReader& in) {
  std::vector<std::string> texts(in.count());
  for (std::string& t : texts) t = in.text();
  return texts;
}

void write_problems(WireWriter& out, const std::vector<Problem>& problems) {
  out.number<uint64_t>(problems.size());
  for (const Problem& p : problems) out.problem(p);
}

std::vector<Problem> read_problems(WireReader& in) {
  std::vector<Problem> problems(in.count());
  for (Problem& p : problems) p = in.problem();
  return problems;
}

void write_attributes(WireWriter& out, const std::vector<ExtraAttribute>& attributes) {
  out.number<uint64_t>(attributes.size());
  for (const ExtraAttribute& a : attributes) {
    for (const std::string* s : {&a.name, &a.type, &a.not_plain, &a.value}) out.text(*s);
    out.number(a.is_dict);
    out.number<uint64_t>(a.entries.size());
    for (const auto& [key, value] : a.entries) out.text(key), out.text(value);
  }
}

std::vector<ExtraAttribute> read_attributes(WireReader& in) {
  std::vector<ExtraAttribute> attributes(in.count());
  for (ExtraAttribute& a : attributes) {
    for (std::string* s : {&a.name, &a.type, &a.not_plain, &a.value}) *s = in.text();
    a.is_dict = in.number<bool>();
    a.entries.resize(in.count());
    for (auto& [key, value] : a.entries) key = in.text(), value = in.text();
  }
  return attributes;
}

void write_provenance(WireWriter& out, const Provenance& p) {
  for (const std::string* s : {&p.written_by, &p.loads_in, &p.format_version}) out.text(*s);
  for (const auto* list : {&p.why, &p.packages, &p.extra_attributes, &p.unknown_globals}) write_texts(out, *list);
  write_attributes(out, p.attributes);
  out.number(p.by_dcpctl);
}

Provenance read_provenance(WireReader& in) {
  Provenance p;
  for (std::string* s : {&p.written_by, &p.loads_in, &p.format_version}) *s = in.text();
  for (auto* list : {&p.why, &p.packages, &p.extra_attributes, &p.unknown_globals}) *list = read_texts(in);
  p.attributes = read_attributes(in);
  p.by_dcpctl = in.number<bool>();
  return p;
}

void need(bool holds) {
  if (!holds) WireReader::wrong();
}

bool lies_in(uint64_t first, uint64_t count, uint64_t size) { return first <= size && count <= size - first; }

template <class... Flag>
bool are_flags(const Flag&... flags) {
  return ((std::bit_cast<uint8_t>(flags) <= 1) && ...);
}

// Whatever is used as an index, and what came as a struct and has values that no object may have.
void check(const Catalog& c) {
  const auto is_text = [&](StringId s) { return s < c.strings.size(); };
  const auto is_item = [&](const Item& i) {
    return (i.file == kNone || i.file < c.files.size()) &&
           (i.transforms == 0 || i.transforms == Item::kDeflated || i.transforms < c.transforms.size());
  };
  for (const PathElement& e : c.path_elements) need(e.is_position() || is_text(e.name_id()));
  for (const Tensor& t : c.tensors) {
    need(is_text(t.key) && is_text(t.dtype_name) && lies_in(t.path.first, t.path.count, c.path_elements.size()));
    need(t.rank <= kMaxRank && t.dtype < DType::kCount && are_flags(t.dtype_known, t.strided, t.requires_grad));
    need(lies_in(t.dims_at, t.rank, c.numbers.size()) && lies_in(t.boxes_at, uint64_t{2} * t.rank * t.chunk_count, c.numbers.size()));
    need(lies_in(t.first_chunk, t.chunk_count, c.chunk_total));
  }
  for (const Blob& b : c.blobs) need(is_text(b.key) && lies_in(b.path.first, b.path.count, c.path_elements.size()));
  for (const int64_t o : c.order) need(o >= 0 ? static_cast<uint64_t>(o) < c.tensors.size() : static_cast<uint64_t>(~o) < c.blobs.size());
  need(c.items.size() == c.chunk_total + c.blobs.size() && std::ranges::all_of(c.items, is_item));
  for (const DataFile& f : c.files) need(is_text(f.name));
  for (const McoreShape& m : c.mcore_shapes) need(m.tensor < c.tensors.size() && lies_in(m.dims_at, m.rank, c.numbers.size()));
  for (const Duplicate& d : c.duplicates) need(d.item < c.items.size() && is_text(d.key) && is_item(d.other));
  for (const ItemId i : c.named_twice) need(i < c.items.size());
}

void check(const Resolved& r, const Catalog& c) {
  for (const Tensor& t : c.tensors)
    for (uint32_t n = 0; n < t.chunk_count; ++n) {
      const ItemInfo& i = r.items[c.item_of(t, n)];
      need(i.strides_at == 0 || lies_in(i.strides_at, t.rank + uint64_t{1}, r.strides.size()));
    }
  for (const ItemRecord& i : r.records)
    need(i.item < c.items.size() && (i.duplicate == kNone || i.duplicate < c.duplicates.size()) && are_flags(i.has_crc, i.is_data));
}

}  // namespace

std::vector<std::byte> catalog_to_wire(const Catalog& c) {
  WireWriter out;
  out.number(c.kind);
  out.text(c.path);
  out.text(c.folder);
  out.number(c.single_file);
  out.number<uint64_t>(c.strings.size());
  for (StringId s = 0; s < c.strings.size(); ++s) out.text(c.strings[s]);
  out.array(c.numbers);
  out.array(c.path_elements);
  out.array(c.tensors);
  out.array(c.blobs);
  out.array(c.order);
  out.array(c.items);
  out.number(c.chunk_total);
  out.number<uint64_t>(c.files.size());
  for (const DataFile& f : c.files) {
    out.number(f.name);
    out.number(f.raw);
  }
  out.number<uint64_t>(c.transforms.size());
  for (const auto& t : c.transforms) write_texts(out, t);
  out.number(c.has_planner_data);
  write_provenance(out, c.provenance);
  out.array(c.mcore_shapes);
  out.array(c.duplicates);
  out.array(c.named_twice);
  write_problems(out, c.findings);
  write_problems(out, c.unloadable);
  return out.take();
}

Catalog catalog_from_wire(Bytes bytes) {
  WireReader in(bytes);
  Catalog c;
  c.kind = in.one_of<CheckpointKind>(static_cast<uint8_t>(CheckpointKind::kHf) + 1);
  c.path = in.text();
  c.folder = in.text();
  c.single_file = in.number<bool>();
  const uint64_t strings = in.count();
  for (uint64_t s = 0; s < strings; ++s)
    if (c.strings.intern(in.text()) != s) WireReader::wrong();
  c.numbers = in.array<int64_t>();
  c.path_elements = in.array<PathElement>(PathElement::name(0));
  c.tensors = in.array<Tensor>();
  c.blobs = in.array<Blob>();
  c.order = in.array<int64_t>();
  c.items = in.array<Item>();
  c.chunk_total = in.number<uint32_t>();
  c.files.resize(in.count());
  for (DataFile& f : c.files) {
    f.name = in.number<StringId>();
    f.raw = in.number<bool>();
  }
  c.transforms.resize(in.count());
  for (auto& t : c.transforms) t = read_texts(in);
  c.has_planner_data = in.number<bool>();
  c.provenance = read_provenance(in);
  c.mcore_shapes = in.array<McoreShape>();
  c.duplicates = in.array<Duplicate>();
  c.named_twice = in.array<ItemId>();
  c.findings = read_problems(in);
  c.unloadable = read_problems(in);
  check(c);
  return c;
}

std::vector<std::byte> resolved_to_wire(const Resolved& r) {
  WireWriter out;
  uint64_t count = 0;
  for (const ItemInfo& i : r.items) count += i.resolved;
  out.number(count);
  for (ItemId i = 0; i < r.items.size(); ++i) {
    if (!r.items[i].resolved) continue;
    out.number(i);
    out.number(r.items[i]);
  }
  out.array(r.strides);
  out.number<uint64_t>(r.blobs.size());
  for (const auto& [id, b] : r.blobs) {
    out.number(id);
    out.text(as_text(Bytes(b.item.pickle)));
    out.text(b.item.pickle_place.path);
    out.number(b.item.pickle_place.offset.value_or(0));
    out.number(b.item.big_endian);
    out.number<uint64_t>(b.item.storages.size());
    for (const BlobItem::Storage& s : b.item.storages) {
      out.text(s.key);
      out.number(s.payload);
      out.number(s.bytes);
      out.number(s.packed);
      out.number(s.crc);
      out.number(s.has_crc);
    }
    out.text(as_text(Bytes(b.decoded)));
  }
  out.number<uint64_t>(r.deflated.size());
  for (const auto& [id, item] : r.deflated) {
    out.number(id);
    out.number(item);
  }
  out.number<uint64_t>(r.shared.size());
  for (const auto& [item, first] : r.shared) {
    out.number(item);
    out.number(first);
  }
  out.number(r.bytes_read);
  write_problems(out, r.findings);
  out.array(r.records);
  out.number(r.records_checked);
  out.number(r.records_without_crc);
  return out.take();
}

namespace {

std::vector<std::byte> to_bytes(const std::string& text) {
  const Bytes b = as_bytes(text);
  return {b.begin(), b.end()};
}

ResolvedBlob read_blob(WireReader& in) {
  ResolvedBlob b;
  b.item.pickle = to_bytes(in.text());
  b.item.pickle_place.path = in.text();
  b.item.pickle_place.offset = in.number<uint64_t>();
  b.item.big_endian = in.number<bool>();
  b.item.storages.resize(in.count());
  for (BlobItem::Storage& s : b.item.storages) {
    s.key = in.text();
    s.payload = in.number<uint64_t>();
    s.bytes = in.number<uint64_t>();
    s.packed = in.number<uint64_t>();
    s.crc = in.number<uint32_t>();
    s.has_crc = in.number<bool>();
  }
  b.decoded = to_bytes(in.text());
  return b;
}

}  // namespace

// Strides of an item are at their place in the list that comes with it, which is appended to the one that is here.
void merge_resolved(Resolved& into, const Catalog& catalog, Bytes bytes) {
  WireReader in(bytes);
  into.items.resize(catalog.items.size());
  if (into.strides.empty()) into.strides.push_back(0);
  const uint64_t strides_at = into.strides.size();
  for (auto count = in.number<uint64_t>(); count > 0; --count) {
    const auto id = in.number<ItemId>();
    auto info = in.number<ItemInfo>();
    need(id < into.items.size() && info.dtype < DType::kCount &&
         are_flags(info.resolved, info.opaque, info.has_crc, info.swap, info.conj, info.neg));
    if (info.strides_at != 0) info.strides_at += strides_at;
    if (!into.items[id].resolved) into.items[id] = info;
  }
  const std::vector<int64_t> strides = in.array<int64_t>();
  into.strides.insert(into.strides.end(), strides.begin(), strides.end());
  for (auto count = in.number<uint64_t>(); count > 0; --count) {
    const auto id = in.number<ItemId>();
    need(id < into.items.size());
    into.blobs.emplace(id, read_blob(in));
  }
  for (auto count = in.number<uint64_t>(); count > 0; --count) {
    const auto id = in.number<ItemId>();
    into.deflated.emplace(id, in.number<Item>());
  }
  for (auto count = in.number<uint64_t>(); count > 0; --count) {
    const auto item = in.number<ItemId>();
    into.shared.emplace(item, in.number<ItemId>());
  }
  into.bytes_read += in.number<uint64_t>();
  for (Problem& p : read_problems(in)) into.findings.push_back(std::move(p));
  const std::vector<ItemRecord> records = in.array<ItemRecord>();
  into.records.insert(into.records.end(), records.begin(), records.end());
  into.records_checked += in.number<uint64_t>();
  into.records_without_crc += in.number<uint64_t>();
  check(into, catalog);
}

}  // namespace dcp
