#include "items/duplicates.h"

#include <algorithm>

#include "base/sums.h"
#include "catalog/structure.h"
#include "catalog/torch_files.h"
#include "items/item_source.h"

namespace dcp {
namespace {

Place place_of(const Catalog& catalog, const Duplicate& d, const Item& item) {
  return {.path = catalog.file_path(item.file),
          .tensor = std::string(catalog.strings[d.key]),
          .object = d.item >= catalog.chunk_total,
          .offset = item.offset,
          .length = item.length};
}

class ContentReader {
 public:
  ContentReader(DataFiles& files, const Catalog& catalog, Item item, const Limits& limits)
      : files_(files), catalog_(catalog), item_(item), limits_(limits) {}

  // An item of a torch.save file, whose facts are known since it was opened.
  ItemContent read(const TorchValue& value, ItemId number, const Place& place) {
    const Item item = std::exchange(item_, {.file = item_.file});  // positions of records count in the file
    const ItemInfo& x = value.info;
    if (!x.resolved || x.opaque) {
      blob(blob_of(*catalog_.torch->files[item.file], value.value, place, limits_));
      return std::move(content_);
    }
    for (const int64_t n : {static_cast<int64_t>(x.dtype), int64_t{x.conj}, int64_t{x.neg}, int64_t{x.swap}}) add(n);
    if (x.strides_at != 0)  // all copies fill the same box
      for (size_t d = 0; d <= catalog_.tensor_of_chunk(number).rank; ++d) add(catalog_.torch->strides[x.strides_at + d]);
    record({.key = {},
            .payload = x.record,
            .bytes = x.record_bytes,
            .packed = item.transforms == Item::kDeflated ? item.length : 0,
            .crc = x.crc,
            .has_crc = x.has_crc});
    return std::move(content_);
  }

  ItemContent read(bool tensor, const Place& place) {
    for (const std::string& t : catalog_.transforms[item_.transforms]) add(t);
    if (item_.transforms != 0) {
      record({.key = {}, .payload = 0, .bytes = item_.length});
      return std::move(content_);
    }
    SliceSource source(files_, item_.file);
    source.go_to(item_.offset, item_.length, item_.offset + item_.length);
    if (!tensor || !plain(source, place)) blob(source, place);
    return std::move(content_);
  }

 private:
  // Returns false for a tensor that is not plain.
  bool plain(ItemSource& source, const Place& place) {
    const TensorItem x = read_tensor_item(source, place, limits_);
    add(static_cast<int64_t>(x.form));
    if (x.form == ItemForm::kOpaque) return false;
    for (const int64_t n : {static_cast<int64_t>(x.dtype), static_cast<int64_t>(x.sizes.size()), static_cast<int64_t>(x.storage_offset),
                            int64_t{x.conj}, int64_t{x.neg}, int64_t{x.big_endian}})
      add(n);
    for (const int64_t n : x.sizes) add(n);
    for (const int64_t n : x.strides) add(n);
    record({.key = {}, .payload = x.payload, .bytes = x.record_bytes, .packed = x.packed, .crc = x.crc, .has_crc = x.has_crc});
    return true;
  }

  void blob(ItemSource& source, const Place& place) { blob(read_blob_item(source, place, limits_)); }
  void blob(const BlobItem& x) {
    add(as_text(x.pickle));
    add(int64_t{x.big_endian});
    for (const BlobItem::Storage& s : x.storages) {
      add(s.key);
      record(s);
    }
  }

  void record(const BlobItem::Storage& s) {
    RecordContent r{.bytes = s.bytes, .crc32 = s.crc, .was_read = !s.has_crc};
    if (r.was_read) sum(s, r);
    content_.records.push_back(r);
  }

  void sum(const BlobItem::Storage& s, RecordContent& r) {
    const uint64_t at = item_.offset + s.payload;
    const Item part = s.packed != 0 ? Item::deflated(at, s.packed, item_.file) : Item{.offset = at, .length = s.bytes, .file = item_.file};
    uint32_t raw32 = 0;
    uint64_t raw64 = 0;
    decode_item(files_, part, {.path = catalog_.file_path(item_.file), .offset = at}, s.bytes, [&](Bytes block) {
      raw32 = crc32_shift(raw32, block.size()) ^ crc32_raw(block);
      raw64 = crc64_shift(raw64, block.size()) ^ crc64_raw(block);
    });
    r.crc32 = crc32_finish(raw32, s.bytes);
    r.crc64 = crc64_finish(raw64, s.bytes);
  }

  void add(int64_t number) { content_.facts.append(std::to_string(number)).append(" "); }
  void add(std::string_view text) {
    add(static_cast<int64_t>(text.size()));
    content_.facts.append(text);
  }

  DataFiles& files_;
  const Catalog& catalog_;
  Item item_;
  const Limits& limits_;
  ItemContent content_;
};

void prove(const Catalog& catalog, const Duplicate& d, const ContentOf& contents) {
  const ItemContent used = contents(d, Copy::kUsed);  // read first, whatever the order of evaluation
  if (same_content(used, contents(d, Copy::kOther))) return;
  fail(ProblemId::duplicates_differ, place_of(catalog, d, d.other),
       "a value different from that in " + catalog.file_path(catalog.items[d.item].file));
}

}  // namespace

bool same_content(const ItemContent& a, const ItemContent& b) {
  const auto same = [](const RecordContent& x, const RecordContent& y) {
    return x.bytes == y.bytes && x.crc32 == y.crc32 && (x.crc64 == y.crc64 || !x.was_read || !y.was_read);
  };
  return a.facts == b.facts && std::ranges::equal(a.records, b.records, same);
}

ItemContent content_of(DataFiles& files, const Catalog& catalog, const Duplicate& d, Copy copy, const Limits& limits) {
  const Item& item = copy == Copy::kUsed ? catalog.items[d.item] : d.other;
  const Place place = place_of(catalog, d, item);
  if (copy == Copy::kOther) check_slice(catalog, item, place, "another rank's copy");
  ContentReader reader(files, catalog, item, limits);
  if (!catalog.traits().in_torch_files) return reader.read(d.item < catalog.chunk_total, place);
  const auto number = static_cast<size_t>(&d - catalog.duplicates.data());
  return reader.read(copy == Copy::kUsed ? catalog.torch->items[d.item] : catalog.torch->copies[number], d.item, place);
}

void prove_duplicates(const SourceFacts& source, const ContentOf& contents) {
  for (const Duplicate& d : source.catalog.duplicates)
    if (source.resolved.items[d.item].resolved) prove(source.catalog, d, contents);
}

std::vector<Problem> find_differing_duplicates(const SourceFacts& source, const ContentOf& contents) {
  return find_differing_duplicates(source.catalog, contents, [&](ItemId i) { return bool{source.resolved.items[i].resolved}; });
}

std::vector<Problem> find_differing_duplicates(const Catalog& catalog, const ContentOf& contents,
                                               const std::function<bool(ItemId)>& is_wanted) {
  std::vector<Problem> found;
  for (const Duplicate& d : catalog.duplicates) {
    if (!is_wanted(d.item)) continue;
    try {
      prove(catalog, d, contents);
    } catch (const Error& e) {
      if (!can_be_collected(e.problem().id)) throw;
      found.push_back(e.problem());
      // Ranks of a rank-local DCP checkpoint may have values of their own, which torch loads on each.
      const bool may_differ = e.problem().id == ProblemId::duplicates_differ && !catalog.traits().in_torch_files;
      found.back().severity = may_differ ? Severity::kWarning : Severity::kDamage;
    }
  }
  return found;
}

}  // namespace dcp
