#include "ranks/catalog_wire.h"

#include "ranks/wire.h"

namespace dcp {
namespace {

void write_texts(WireWriter& out, const std::vector<std::string>& texts) {
  out.number<uint64_t>(texts.size());
  for (const std::string& t : texts) out.text(t);
}

std::vector<std::string> read_texts(WireReader& in) {
  std::vector<std::string> texts(in.number<uint64_t>());
  for (std::string& t : texts) t = in.text();
  return texts;
}

void write_problems(WireWriter& out, const std::vector<Problem>& problems) {
  out.number<uint64_t>(problems.size());
  for (const Problem& p : problems) out.problem(p);
}

std::vector<Problem> read_problems(WireReader& in) {
  std::vector<Problem> problems(in.number<uint64_t>());
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
  std::vector<ExtraAttribute> attributes(in.number<uint64_t>());
  for (ExtraAttribute& a : attributes) {
    for (std::string* s : {&a.name, &a.type, &a.not_plain, &a.value}) *s = in.text();
    a.is_dict = in.number<bool>();
    a.entries.resize(in.number<uint64_t>());
    for (auto& [key, value] : a.entries) key = in.text(), value = in.text();
  }
  return attributes;
}

void write_provenance(WireWriter& out, const Provenance& p) {
  for (const std::string* s : {&p.written_by, &p.loads_in, &p.format_version}) out.text(*s);
  for (const auto* list : {&p.why, &p.packages, &p.extra_attributes, &p.unknown_globals}) write_texts(out, *list);
  write_attributes(out, p.attributes);
}

Provenance read_provenance(WireReader& in) {
  Provenance p;
  for (std::string* s : {&p.written_by, &p.loads_in, &p.format_version}) *s = in.text();
  for (auto* list : {&p.why, &p.packages, &p.extra_attributes, &p.unknown_globals}) *list = read_texts(in);
  p.attributes = read_attributes(in);
  return p;
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
  return out.take();
}

Catalog catalog_from_wire(Bytes bytes) {
  WireReader in(bytes);
  Catalog c;
  c.kind = in.number<CheckpointKind>();
  c.path = in.text();
  c.folder = in.text();
  c.single_file = in.number<bool>();
  const auto strings = in.number<uint64_t>();
  for (uint64_t s = 0; s < strings; ++s) c.strings.intern(in.text());
  c.numbers = in.array<int64_t>();
  c.path_elements = in.array<PathElement>(PathElement::name(0));
  c.tensors = in.array<Tensor>();
  c.blobs = in.array<Blob>();
  c.order = in.array<int64_t>();
  c.items = in.array<Item>();
  c.chunk_total = in.number<uint32_t>();
  c.files.resize(in.number<uint64_t>());
  for (DataFile& f : c.files) {
    f.name = in.number<StringId>();
    f.raw = in.number<bool>();
  }
  c.transforms.resize(in.number<uint64_t>());
  for (auto& t : c.transforms) t = read_texts(in);
  c.has_planner_data = in.number<bool>();
  c.provenance = read_provenance(in);
  c.mcore_shapes = in.array<McoreShape>();
  c.duplicates = in.array<Duplicate>();
  c.named_twice = in.array<ItemId>();
  c.findings = read_problems(in);
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
  b.item.storages.resize(in.number<uint64_t>());
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
    if (info.strides_at != 0) info.strides_at += strides_at;
    if (!into.items.at(id).resolved) into.items[id] = info;
  }
  const std::vector<int64_t> strides = in.array<int64_t>();
  into.strides.insert(into.strides.end(), strides.begin(), strides.end());
  for (auto count = in.number<uint64_t>(); count > 0; --count) {
    const auto id = in.number<ItemId>();
    into.blobs.emplace(id, read_blob(in));
  }
  for (auto count = in.number<uint64_t>(); count > 0; --count) {
    const auto id = in.number<ItemId>();
    into.deflated.emplace(id, in.number<Item>());
  }
  into.bytes_read += in.number<uint64_t>();
  for (Problem& p : read_problems(in)) into.findings.push_back(std::move(p));
  const std::vector<ItemRecord> records = in.array<ItemRecord>();
  into.records.insert(into.records.end(), records.begin(), records.end());
  into.records_checked += in.number<uint64_t>();
  into.records_without_crc += in.number<uint64_t>();
}

}  // namespace dcp
