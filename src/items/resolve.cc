#include "items/resolve.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/sums.h"
#include "base/text.h"
#include "catalog/cover.h"
#include "catalog/torch_files.h"
#include "format/item_archive.h"
#include "items/bare_pickle.h"
#include "items/item_source.h"
#include "items/predicted_heads.h"
#include "items/unsafe.h"
#include "pickle/tokens.h"
#include "pickle/weights_only.h"

namespace dcp {
namespace {

// Resolves one item for resolve(). Several workers call it at the same time.

// One item to examine. `tensor` is kNone for a byte item and for another rank's copy.
struct Wanted {
  ItemId item = 0;
  TensorId tensor = kNone;
  uint32_t chunk = 0;  // within the tensor
  BlobId blob = kNone;
  uint32_t duplicate = kNone;
  ItemId like = kNone;  // it is expected to be like this one
};

// The place of the item.
inline const Item& item_of(const Catalog& catalog, const Wanted& w) {
  return w.duplicate == kNone ? catalog.items[w.item] : catalog.duplicates[w.duplicate].other;
}

// Depending on ResolveOptions, an item is read by one(), which stops at the first fault, or by examine(), which checks all of it.
class ItemResolver {
 public:
  ItemResolver(DataFiles& files, const Catalog& catalog, const ResolveOptions& options, Resolved& out)
      : files_(files), catalog_(catalog), options_(options), out_(out), findings_(out.findings), looking_(options.limits) {
    looking_.blob_bytes = max_to_look_at();
    looking_.memory_bytes = std::min(looking_.memory_bytes, options.memory_bytes / (2 * std::max(options.workers, 1u)));
  }
  // Items of one file in offset order; none reaches beyond run_end.
  void in_file(uint32_t file, std::span<const Wanted> wanted, uint64_t run_end);
  uint64_t end_of_read(std::span<const Wanted> wanted, uint64_t run_end) const;
  // Call once all items are done: adds up their counts.
  void end();

 private:
  template <class Body>
  void collect(const Body& body);
  void found(Problem p, Severity severity = Severity::kDamage);
  std::string_view key(const Wanted& w) const;
  void one(SliceSource& source, const Wanted& w, const Place& place, uint64_t run_end);
  bool is_raw(const Wanted& w, const Item& item) const;
  void raw(const Wanted& w, const Item& item, const Place& place);
  void from_torch_file(const Wanted& w, const Place& place);
  void transformed(const Wanted& w, const Place& place);
  EndsSource decoded_ends(const Wanted& w, const Place& place);
  std::vector<std::byte> decoded_whole(const Wanted& w, const Place& place);
  void examine(SliceSource& source, const Wanted& w, const Place& place, uint64_t run_end);
  void examine_raw(const Wanted& w, const Item& item, const Place& place);
  void archive(ItemSource& source, const Wanted& w, const Place& place, uint64_t base);
  void look_into(ItemSource& source, const Place& place);
  void look_beside(ItemSource& source, const ZipDirectory& directory, const Place& place, size_t storages);
  void bare(ItemSource& source, const Place& place);
  void unsafe(const Place& place, const std::vector<std::string>& globals);
  struct OpenItem {
    ItemSource& source;
    const ZipDirectory& directory;
    const Wanted& wanted;
    const Place& place;
    uint64_t base = 0;   // where it begins in its file
    bool plain = false;  // its pickle has been read; else the pickle is listed, so that the digest of an object can include it
  };
  void record(const OpenItem& item, const ZipRecord& r);
  // Whether records of an item are summed at once, because it is read as a whole.
  bool is_summed(const Item& item) const {
    return options_.summed != nullptr && item.transforms == 0 && item.length <= options_.small_item && !catalog_.files[item.file].raw;
  }
  bool is_done(const OpenItem& item, const ZipRecord& r, uint64_t payload);
  void check_packed_once(const Wanted& w, bool deflated, const Place& place) const;
  [[noreturn]] static void fail_decoded(uint64_t packed, uint64_t max, const Place& place);
  void hold(uint64_t bytes, const Place& place);
  uint64_t max_to_look_at() const;
  BlobItem with_pickle(ItemSource& source, const Place& place);
  bool tensor(ItemSource& source, const Wanted& w, const Place& place, uint64_t base);
  void check_is_chunk(const Wanted& w, const TensorItem& t, const Place& place) const;
  void blob(ItemSource& source, const Wanted& w, const Place& place, std::vector<std::byte> decoded, uint64_t base);
  ResolvedBlob& blob_at(ItemId item);

  DataFiles& files_;
  const Catalog& catalog_;
  const ResolveOptions& options_;
  Resolved& out_;
  FindingList findings_;
  Limits looking_;                                  // for pickles that are only examined
  std::set<std::pair<uint32_t, uint64_t>> listed_;  // file and payload of records of raw files
  std::mutex mutex_;                                // strides, blobs, findings, records
  std::atomic<uint64_t> bytes_read_{0}, checked_{0}, without_crc_{0}, data_records_{0}, data_bytes_{0};
  std::atomic<uint64_t> held_{0};         // bytes of byte items
  std::atomic<uint64_t> torch_bytes_{0};  // of these, from a torch.save file
};

// A record up to this size that is not a storage is read at once.
constexpr uint64_t kSmallRecord = 64 * kKiB;

constexpr uint64_t kNoCap = ~uint64_t{0};

void ItemResolver::end() {
  findings_.end();
  out_.bytes_read = bytes_read_;
  out_.records_checked = checked_;
  out_.records_without_crc = without_crc_;
  out_.data_records = data_records_;
  out_.data_bytes = data_bytes_;
}

void ItemResolver::in_file(uint32_t file, std::span<const Wanted> wanted, uint64_t run_end) {
  collect([&] {
    SliceSource source(files_, file, options_.small_item);
    Place place{.path = catalog_.file_path(file)};  // made once: there may be 10^5 items
    for (; !wanted.empty(); wanted = wanted.subspan(1)) {
      const Wanted& w = wanted.front();
      const Item& item = item_of(catalog_, w);
      const uint64_t until = end_of_read(wanted, run_end);
      place.tensor = key(w);
      place.object = w.item >= catalog_.chunk_total;
      place.offset = item.offset;
      place.length = item.length;
      if (options_.faults == Faults::kThrow) one(source, w, place, until);
      else collect([&] { examine(source, w, place, until); });
      if (is_summed(item)) *options_.summed += item.length;
    }
    bytes_read_ += source.bytes_read();
  });
}

// How far a read for the first of `wanted` may go. Where large items are read for their data, a read has whole ones.
uint64_t ItemResolver::end_of_read(std::span<const Wanted> wanted, uint64_t run_end) const {
  const Item& first = item_of(catalog_, wanted.front());
  if (options_.small_item <= SliceSource::kSmallItem || first.length > options_.small_item) return run_end;
  uint64_t end = 0;
  for (const Wanted& w : wanted) {
    const Item& item = item_of(catalog_, w);
    if (item.offset + item.length > first.offset + options_.small_item) break;
    end = std::max(end, item.offset + item.length);
  }
  return end;
}

// If faults are collected, an error becomes a finding.
template <class Body>
void ItemResolver::collect(const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    if (options_.faults == Faults::kThrow || !can_be_collected(e.problem().id)) throw;
    found(e.problem(), e.problem().id == ProblemId::pickle_unseen ? Severity::kWarning : Severity::kDamage);
  }
}

void ItemResolver::found(Problem p, Severity severity) {
  p.severity = severity;
  const std::lock_guard lock(mutex_);
  findings_.add(std::move(p));
}

std::string_view ItemResolver::key(const Wanted& w) const {
  if (w.duplicate != kNone) return catalog_.strings[catalog_.duplicates[w.duplicate].key];
  return w.tensor != kNone ? catalog_.key(catalog_.tensors[w.tensor]) : catalog_.key(catalog_.blobs[w.blob]);
}

void ItemResolver::one(SliceSource& source, const Wanted& w, const Place& place, uint64_t run_end) {
  const Item& item = catalog_.items[w.item];
  if (is_raw(w, item)) return raw(w, item, place);
  if (item.transforms != 0) return transformed(w, place);
  source.go_to(item.offset, item.length, run_end);
  if (w.tensor == kNone) return blob(source, w, place, {}, item.offset);
  if (!tensor(source, w, place, item.offset)) blob(source, w, place, {}, item.offset);
}

// Byte items before the safetensors part of a data file are archives.
bool ItemResolver::is_raw(const Wanted& w, const Item& item) const {
  return catalog_.files[item.file].raw && (catalog_.traits().in_torch_files || w.item < catalog_.chunk_total);
}

// A raw item is just the chunk's payload; build has checked that its length is the chunk's.
void ItemResolver::raw(const Wanted& w, const Item& item, const Place& place) {
  if (catalog_.traits().in_torch_files) return from_torch_file(w, place);
  const DType dtype = catalog_.tensors[w.tensor].dtype;
  out_.items[w.item] = {.record = item.offset, .record_bytes = item.length, .dtype = dtype, .resolved = true};
}

void ItemResolver::from_torch_file(const Wanted& w, const Place& place) {
  const TorchValue& value = catalog_.torch->items[w.item];
  if (w.tensor != kNone) {
    out_.items[w.item] = value.info;
    if (!value.info.opaque) return;
  }
  // A list that the values of many keys share is in the pickle of each of them. Without sharing, all pickles together are little larger
  // than the file's own.
  const TorchFile& file = *catalog_.torch->files[catalog_.items[w.item].file];
  const uint64_t max = std::max(options_.limits.path_bytes, options_.limits.decoded_bytes) + 16 * file.archive.pickle.size();
  if (torch_bytes_ > max) {
    throw Error(with_remedy(
        make_problem(ProblemId::over_limit, place, "objects that share and add up to more bytes", "at most " + std::to_string(max)),
        Remedy::kLargerPickle));
  }
  BlobItem b = blob_of(file, value.value, place, options_.limits);
  hold(b.pickle.size(), place);
  torch_bytes_ += b.pickle.size();
  blob_at(w.item).item = std::move(b);
  out_.items[w.item].resolved = true;
}

// A byte item is decoded as a whole. Of a tensor item only the ends are kept, unless it turns out to be opaque.
void ItemResolver::transformed(const Wanted& w, const Place& place) {
  if (w.tensor != kNone) {
    EndsSource ends = decoded_ends(w, place);
    if (tensor(ends, w, place, 0)) return;
  }
  std::vector<std::byte> decoded = decoded_whole(w, place);
  MemorySource source(decoded);  // moving the vector does not move its bytes
  blob(source, w, place, std::move(decoded), 0);
}

EndsSource ItemResolver::decoded_ends(const Wanted& w, const Place& place) {
  const uint64_t elements =
      w.tensor == kNone ? options_.limits.blob_bytes : volume(catalog_.box(catalog_.tensors[w.tensor], w.chunk).sizes);
  EndsSource ends(place);
  const uint64_t cap = add_or_fail(mul_or_fail(elements, 16, place), options_.limits.item_pickle_bytes, place);
  decode_item(files_, item_of(catalog_, w), place, cap, [&](Bytes b) { ends.append(b); });
  bytes_read_ += item_of(catalog_, w).length;
  return ends;
}

std::vector<std::byte> ItemResolver::decoded_whole(const Wanted& w, const Place& place) {
  std::vector<std::byte> decoded;
  uint64_t bytes = 0;
  const uint64_t max = std::min(options_.limits.blob_bytes, options_.limits.decoded_bytes + 16 * item_of(catalog_, w).length);
  decode_item(files_, item_of(catalog_, w), place, kNoCap, [&](Bytes b) {
    bytes += b.size();
    if (options_.blobs == BlobUse::kNames && bytes > max_to_look_at())  // and decoding stops
      throw Error(unseen_pickle(place, "an object that decodes to " + std::to_string(bytes) + " bytes or more", max_to_look_at()));
    const bool fits = held_ + 4 * bytes <= options_.memory_bytes;
    if (bytes > max && !fits) hold(2 * bytes, place);
    if (bytes > max) fail_decoded(item_of(catalog_, w).length, max, place);
    if (fits) decoded.insert(decoded.end(), b.begin(), b.end());
    else decoded = {};  // the rest is only counted, so that the message can say how much memory it needs
  });
  if (options_.blobs != BlobUse::kNames) hold(2 * bytes, place);  // a growing vector exists twice
  bytes_read_ += item_of(catalog_, w).length;
  return decoded;
}

// --- collecting: each item is examined, whatever is wrong with others
void ItemResolver::examine(SliceSource& source, const Wanted& w, const Place& place, uint64_t run_end) {
  const Item& item = item_of(catalog_, w);
  if (is_raw(w, item)) return examine_raw(w, item, place);
  if (item.transforms == 0) {
    source.go_to(item.offset, item.length, run_end);
    archive(source, w, place, item.offset);
  } else if (w.blob == kNone) {
    EndsSource ends = decoded_ends(w, place);
    archive(ends, w, place, 0);
    if (w.duplicate == kNone && out_.items[w.item].opaque && options_.blobs != BlobUse::kNames)
      blob_at(w.item).decoded = decoded_whole(w, place);
  } else {
    std::vector<std::byte> decoded = decoded_whole(w, place);
    MemorySource memory(decoded);
    archive(memory, w, place, 0);
    if (options_.blobs != BlobUse::kNames) blob_at(w.item).decoded = std::move(decoded);
  }
}

// Headers were checked when the file was opened. Only the CRCs of a torch.save file's storages remain, each of them once.
void ItemResolver::examine_raw(const Wanted& w, const Item& item, const Place& place) {
  const auto list = [&](uint64_t payload, uint64_t bytes, uint64_t packed, uint32_t crc, bool has_crc) {
    const std::lock_guard lock(mutex_);
    if (listed_.insert({item.file, payload}).second)
      out_.records.push_back({.offset = payload,
                              .bytes = bytes,
                              .packed = packed,
                              .item = w.item,
                              .duplicate = w.duplicate,
                              .crc = crc,
                              .has_crc = has_crc,
                              .is_data = true});
  };
  const auto list_info = [&](const ItemInfo& info) {
    list(info.record, info.record_bytes, item.transforms == Item::kDeflated ? item.length : 0, info.crc, info.has_crc);
  };
  const auto list_blob = [&](const BlobItem& blob) {
    for (const BlobItem::Storage& s : blob.storages) list(s.payload, s.bytes, s.packed, s.crc, s.has_crc);
  };
  if (w.duplicate != kNone) {
    if (!catalog_.traits().in_torch_files) return;  // a safetensors file has no CRCs
    const TorchValue& copy = catalog_.torch->copies[w.duplicate];
    if (copy.info.resolved && !copy.info.opaque) return list_info(copy.info);
    return list_blob(blob_of(*catalog_.torch->files[item.file], copy.value, place, options_.limits));
  }
  raw(w, item, place);
  if (w.tensor == kNone || out_.items[w.item].opaque) return list_blob(blob_at(w.item).item);
  list_info(out_.items[w.item]);
  if (!catalog_.traits().in_torch_files) return;
  // A DTensor is more than its part: the ranks of its mesh are a tensor in the file.
  const TorchFile& file = *catalog_.torch->files[item.file];
  const Value& value = catalog_.torch->items[w.item].value;
  if (value.kind == Kind::kObject && file.graph->global_of(value) == "torch._tensor._rebuild_from_type_v2")
    list_blob(blob_of(file, value, place, options_.limits));
}

void ItemResolver::archive(ItemSource& source, const Wanted& w, const Place& place, uint64_t base) {
  if (place.object && !begins_archive(source.at(0, std::min<uint64_t>(source.size(), 4)))) return bare(source, place);
  if (options_.blobs == BlobUse::kNames && w.tensor == kNone) return look_into(source, place);
  const ZipDirectory directory = read_zip_directory(source, place, options_.limits);
  if (directory.end < source.size()) {
    const std::string bytes = std::to_string(source.size() - directory.end);
    found(make_problem(ProblemId::item_trailing, place, bytes + " bytes after its end record"), Severity::kWarning);
  }
  bool plain = false;
  try {
    if (w.tensor != kNone) plain = tensor(source, w, place, base), look_beside(source, directory, place, 1);
    else look_into(source, place);
    if (!plain && w.duplicate == kNone) out_.items[w.item].resolved = true;
  } catch (const Error& e) {
    if (!can_be_collected(e.problem().id)) throw;
    // A pickle with a wrong CRC is reported below.
    if (e.problem().id != ProblemId::crc_mismatch) found(e.problem());
  }
  for (const ZipRecord& r : directory.records) collect([&] { record({source, directory, w, place, base, plain}, r); });
}

// Looks for pickles that torch does not load.
void ItemResolver::look_beside(ItemSource& source, const ZipDirectory& directory, const Place& place, size_t storages) {
  if (!may_hold_pickles(directory, storages)) return;
  const ItemPickle pickle = read_item_pickle(source, directory, max_to_look_at(), options_.limits, place);
  std::set<std::string, std::less<>> named;
  for (const TorchStorage& s : run_object_pickle(pickle.bytes, pickle.place, looking_).storages) named.insert(s.key);
  for (Problem& p : unloaded_pickles(source, directory, named, place, options_.limits)) found(std::move(p), Severity::kWarning);
}

// Finds what loading an object would import.
void ItemResolver::look_into(ItemSource& source, const Place& place) {
  const ZipDirectory directory = open_item_archive(source, place, options_.limits).directory;
  const uint64_t bytes = readable_record(directory, "data.pkl", place).size;
  if (bytes > max_to_look_at())
    return found(unseen_pickle(place, "a pickle of " + std::to_string(bytes) + " bytes", max_to_look_at()), Severity::kWarning);
  const ItemPickle pickle = read_item_pickle(source, directory, max_to_look_at(), options_.limits, place);
  const ObjectPickle object = run_object_pickle(pickle.bytes, pickle.place, looking_);
  if (object.unseen) return unsafe(place, refused_globals(pickle.bytes, pickle.place, options_.limits));  // which keeps no values
  unsafe(place, object.fault ? look_at_bare_pickle(pickle.bytes, pickle.place, options_.limits).refused : object.refused);
  if (auto p = trailing_pickle(object.trailing_bytes, at_offset(pickle.place, bytes - object.trailing_bytes)))
    found(std::move(*p), Severity::kWarning);
  look_beside(source, directory, place, object.storages.size());
  check_object(source, directory, object, place);
}

// dcp.load passes an object's item to torch.load without weights_only.
void ItemResolver::bare(ItemSource& source, const Place& place) {
  const uint64_t bytes = std::min(source.size(), max_to_look_at());
  const BarePickle pickle = look_at_bare_pickle(source.at(0, bytes), place, options_.limits);
  const bool is_legacy = pickle.form == BarePickle::Form::kLegacy;
  const std::string got = is_legacy                                  ? "torch's format before 1.6, which dcp.load reads"
                          : pickle.form == BarePickle::Form::kPickle ? "a bare pickle, which dcp.load runs before it fails"
                                                                     : "";
  found(make_problem(ProblemId::blob_not_archive, place, got), is_legacy && !pickle.is_cut ? Severity::kWarning : Severity::kDamage);
  if (pickle.is_cut && bytes < source.size())
    found(unseen_pickle(place, "an object of " + std::to_string(source.size()) + " bytes", max_to_look_at()), Severity::kWarning);
  unsafe(place, pickle.refused);
}

void ItemResolver::unsafe(const Place& place, const std::vector<std::string>& globals) {
  if (!globals.empty()) found(unsafe_pickle(place, globals), Severity::kWarning);
}

void ItemResolver::record(const OpenItem& item, const ZipRecord& r) {
  if (r.name.ends_with('/')) return;
  if (r.method != ZipRecord::kStored && !r.deflated()) return;  // nothing reads it; it is refused where it is needed
  const uint64_t payload = payload_of(item.source, item.directory, r, item.place);
  const bool is_data = r.name.starts_with("data/");
  const bool is_listed = is_data || (r.name == "data.pkl" && !item.plain) || r.size > kSmallRecord;
  check_packed_once(item.wanted, r.deflated(), item.place);
  if (is_listed) {
    if (is_done(item, r, payload)) return;
    const std::lock_guard lock(mutex_);
    out_.records.push_back({.offset = item.base + payload,
                            .bytes = r.size,
                            .packed = r.deflated() ? r.packed : 0,
                            .item = item.wanted.item,
                            .duplicate = item.wanted.duplicate,
                            .crc = r.crc,
                            .has_crc = has_crc(r),
                            .is_data = is_data});
    return;
  }
  const bool checked = check_record_crc(item.source, r, payload, item.place);
  if (r.size > 0) (checked ? checked_ : without_crc_) += 1;
}

// Whether the record is here, and its sum is not wrong. One that is wrong is left to a plan, which says so.
bool ItemResolver::is_done(const OpenItem& item, const ZipRecord& r, uint64_t payload) {
  if (r.deflated() || !is_summed(item_of(catalog_, item.wanted))) return false;
  const bool is_right = crc32(item.source.at(payload, r.size)) == r.crc;
  if (!is_right && has_crc(r)) return false;
  if (r.size > 0) (is_right ? checked_ : without_crc_) += 1;
  if (!r.name.starts_with("data/")) return true;
  data_records_ += 1;
  data_bytes_ += r.size;
  return true;
}

// A deflated record inside a transformed item cannot be read: decoding needs positions in the file.
void ItemResolver::check_packed_once(const Wanted& w, bool deflated, const Place& place) const {
  if (deflated && item_of(catalog_, w).transforms != 0) fail(ProblemId::item_packed_twice, place);
}

// A stream of a few kilobytes may decode to a gigabyte.
void ItemResolver::fail_decoded(uint64_t packed, uint64_t max, const Place& place) {
  throw Error(
      with_remedy(make_problem(ProblemId::over_limit, place, "a zstd stream of " + std::to_string(packed) + " bytes that holds more",
                               "at most " + std::to_string(max)),
                  Remedy::kLargerPickle));
}

// Objects stay in memory until they are written, and for a while so do their written forms.
void ItemResolver::hold(uint64_t bytes, const Place& place) {
  const uint64_t needed = held_.fetch_add(2 * bytes) + 2 * bytes;
  if (needed <= options_.memory_bytes) return;
  const uint64_t other = options_.memory_cap - std::min(options_.memory_cap, options_.memory_bytes);
  throw Error(with_remedy(make_problem(ProblemId::memory_cap, place,
                                       "objects need " + std::to_string((other + needed) / kMiB + 1) + " MiB or more, " +
                                           human_bytes(options_.memory_cap) + " allowed"),
                          Remedy::kMoreMemoryOrFewerKeys, other + needed + 16 * kMiB));
}

// A search for names keeps nothing from one item to the next. A growing vector exists twice, and so do the bytes read into it.
uint64_t ItemResolver::max_to_look_at() const {
  return std::min(options_.limits.blob_bytes, options_.memory_bytes / (4 * std::max(options_.workers, 1u)));
}

BlobItem ItemResolver::with_pickle(ItemSource& source, const Place& place) {
  const ItemArchive archive = open_blob_archive(source, place, options_.limits);
  if (const ZipRecord* pickle = archive.directory.find("data.pkl"); pickle != nullptr && pickle->size <= options_.limits.blob_bytes)
    hold(pickle->size, place);
  BlobItem b = read_blob_item(source, archive, options_.limits.blob_bytes, options_.limits, place);
  Limits left = looking_;
  left.memory_bytes = std::min(left.memory_bytes, (options_.memory_bytes - std::min<uint64_t>(options_.memory_bytes, held_)) / 2);
  check_object(source, archive.directory, run_object_pickle(b.pickle, b.pickle_place, left), place);
  return b;
}

// Returns false for an opaque item.
bool ItemResolver::tensor(ItemSource& source, const Wanted& w, const Place& place, uint64_t base) {
  const TensorItem t = read_tensor_item(source, place, options_.limits);
  ItemInfo& info = out_.items[w.item];
  if (options_.faults == Faults::kCollect) {
    unsafe(place, t.refused);
    if (auto p = trailing_pickle(t.trailing_bytes, t.pickle_end)) found(std::move(*p), Severity::kWarning);
  }
  if (t.form == ItemForm::kOpaque) {
    if (t.described) check_is_chunk(w, t, place);
    info.resolved = info.opaque = true;
    return false;
  }
  check_is_chunk(w, t, place);
  check_packed_once(w, t.packed != 0, place);
  if (t.packed != 0) {
    const std::lock_guard lock(mutex_);
    out_.deflated.emplace(w.item, Item::deflated(base + t.payload, t.packed, item_of(catalog_, w).file));
  }
  info = info_of(t, base);
  if (!is_dense(t)) {
    const std::lock_guard lock(mutex_);
    info.strides_at = out_.strides.size();
    out_.strides.push_back(narrow<int64_t>(t.storage_offset));
    out_.strides.insert(out_.strides.end(), t.strides.begin(), t.strides.end());
  }
  return true;
}

// The plan compares the dtypes of plain tensors, because torch converts them. It does not convert others, and writers copy those with the
// dtype that they have.
void ItemResolver::check_is_chunk(const Wanted& w, const TensorItem& t, const Place& place) const {
  const Tensor& tensor = catalog_.tensors[w.tensor];
  const Dims sizes = catalog_.box(tensor, w.chunk).sizes;
  if (!std::ranges::equal(sizes, t.sizes)) {
    const std::vector<int64_t> zero(t.sizes.size(), 0), origin(sizes.size(), 0);
    fail(ProblemId::chunk_shape_differs, place, slice_text(zero, t.sizes), slice_text(origin, sizes));
  }
  const bool is_asked = options_.faults == Faults::kCollect && t.form == ItemForm::kOpaque;
  if (is_asked && tensor.dtype_known && t.dtype != tensor.dtype)
    fail(ProblemId::dtype_not_convertible, place, std::string(facts_of(t.dtype).name), std::string(facts_of(tensor.dtype).name));
}

void ItemResolver::blob(ItemSource& source, const Wanted& w, const Place& place, std::vector<std::byte> decoded, uint64_t base) {
  BlobItem b = options_.blobs == BlobUse::kWhole ? read_blob_records(source, place, looking_) : with_pickle(source, place);
  for (BlobItem::Storage& s : b.storages) {
    check_packed_once(w, s.packed != 0, place);
    s.payload += base;
  }
  blob_at(w.item) = {.item = std::move(b), .decoded = std::move(decoded)};
  out_.items[w.item].resolved = true;
}

// The map is accessed only under the lock. Its elements do not move, and each belongs to the worker that has the item.
ResolvedBlob& ItemResolver::blob_at(ItemId item) {
  const std::lock_guard lock(mutex_);
  return out_.blobs[item];
}

// Items a worker takes at once: enough for long reads, few enough to share 10^5 items evenly. Where there are more workers than a disk
// gets, each read takes long: then a few hundred are shared, too.
constexpr size_t kBatch = 256, kMinBatch = 16, kManyWorkers = 17;

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

// fn(wanted, item): for each chunk of a tensor.
template <class Fn>
void each_chunk(const Catalog& catalog, TensorId id, const ResolveOptions& options, const Fn& fn) {
  const Tensor& t = catalog.tensors[id];
  std::map<std::pair<uint64_t, std::vector<int64_t>>, ItemId> kinds;  // the first item of each length and shape
  for (uint32_t c = 0; c < t.chunk_count; ++c) {
    const ItemId item = catalog.item_of(t, c);
    const Item& i = catalog.items[item];
    const Dims sizes = catalog.box(t, c).sizes;
    if (options.faults == Faults::kThrow && volume(sizes) == 0) continue;
    Wanted w{.item = item, .tensor = id, .chunk = c};
    if (options.predicts && i.file != kNone && i.transforms == 0 && !catalog.files[i.file].raw) {
      const auto [first, is_new] = kinds.try_emplace({i.length, {sizes.begin(), sizes.end()}}, item);
      if (!is_new) w.like = first->second;
    }
    fn(w, i);
  }
}

// Takes out of `sorted` the items that are expected to be like others. Of items that overlap, which only malicious metadata has, each is read.
std::vector<Wanted> take_alike(const Catalog& catalog, std::vector<Wanted>& sorted) {
  Wanted* last = nullptr;  // of those so far, the one that reaches farthest in its file
  for (Wanted& w : sorted) {
    const Item &item = item_of(catalog, w), before = last == nullptr ? Item{.file = kNone} : item_of(catalog, *last);
    const bool is_apart = before.file != item.file || before.offset + before.length <= item.offset;
    if (!is_apart) w.like = last->like = kNone;
    if (is_apart || before.offset + before.length < item.offset + item.length) last = &w;
  }
  std::vector<Wanted> alike;
  const auto is_alike = [](const Wanted& w) { return w.like != kNone; };
  std::ranges::copy_if(sorted, std::back_inserter(alike), is_alike);
  std::erase_if(sorted, is_alike);
  return alike;
}

// Gives alike items the facts of those that they are like. Returns items that have to be read, because the first of their kind is not plain.
std::vector<Wanted> predict(DataFiles& files, std::span<const Wanted> alike, const Limits& limits, Resolved& out) {
  const Catalog& catalog = files.catalog();
  std::vector<Wanted> others;
  std::map<ItemId, uint32_t> numbers;
  std::vector<PredictedHeads::Kind> kinds;
  std::vector<PredictedHeads::One> items;
  for (const Wanted& w : alike) {
    const Item &item = catalog.items[w.item], &first = catalog.items[w.like];
    ItemInfo info = out.items[w.like];
    if (!info.resolved || info.opaque || info.strides_at != 0 || out.deflated.contains(w.like)) {
      others.push_back(w);
      continue;
    }
    info.crc = 0;
    info.record -= first.offset;
    const auto [number, is_new] = numbers.try_emplace(w.like, static_cast<uint32_t>(kinds.size()));
    if (is_new) {
      const Dims sizes = catalog.box(catalog.tensors[w.tensor], w.chunk).sizes;
      kinds.push_back({.length = item.length, .sizes = {sizes.begin(), sizes.end()}, .info = info});
    }
    items.push_back({.offset = item.offset, .file = item.file, .kind = number->second});
    info.record += item.offset;
    out.items[w.item] = info;
  }
  files.predicted = std::make_shared<PredictedHeads>(std::move(kinds), std::move(items), limits);
  return others;
}

// Where the shares of workers end. Where large items are read for their data, one has about what one read takes.
std::vector<size_t> shares_of(const Catalog& catalog, std::span<const Wanted> wanted, const ResolveOptions& options) {
  const size_t most = options.workers < kManyWorkers ? kBatch : std::clamp(wanted.size() / (4 * options.workers), kMinBatch, kBatch);
  const bool is_data = options.small_item > SliceSource::kSmallItem;
  std::vector<size_t> ends;
  size_t first = 0;
  uint64_t bytes = 0;
  for (size_t n = 0; n < wanted.size(); ++n) {
    const Item& item = item_of(catalog, wanted[n]);
    const bool is_full = bytes + item.length > options.small_item || item.file != item_of(catalog, wanted[first]).file;
    if (n > first && (n - first == most || (is_data && is_full))) {
      ends.push_back(n);
      first = n;
      bytes = 0;
    }
    bytes = std::min(bytes + item.length, options.small_item);
  }
  if (!wanted.empty()) ends.push_back(wanted.size());
  return ends;
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

ItemInfo info_of(const TensorItem& t, uint64_t base) {
  return {.record = base + t.payload,
          .record_bytes = t.record_bytes,
          .crc = t.crc,
          .dtype = t.dtype,
          .resolved = true,
          .has_crc = t.has_crc,
          .swap = t.big_endian && swap_unit(t.dtype) > 1,
          .conj = t.conj,
          .neg = t.neg};
}

bool is_plain(const TensorItem& t) { return t.form == ItemForm::kStrided && t.packed == 0 && is_dense(t); }

Resolved resolve(DataFiles& files, std::span<const TensorId> tensors, std::span<const BlobId> blobs, const ResolveOptions& options,
                 const StopFlag& stop) {
  const Catalog& catalog = files.catalog();
  std::vector<Wanted> wanted;
  const bool all = options.faults == Faults::kCollect;
  const auto want = [&](const Wanted& w, const Item& i) {
    if (options.only_files && i.file != kNone && !(*options.only_files)[i.file]) return;
    if (!all || (i.file != kNone && catalog.files[i.file].reaches(i))) wanted.push_back(w);
  };
  for (const TensorId t : tensors) each_chunk(catalog, t, options, want);
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
  std::vector<Wanted> alike;
  if (options.predicts) alike = take_alike(catalog, wanted);
  ItemResolver items(files, catalog, options, out);
  const auto read = [&](std::span<const Wanted> some) {
    const std::vector<size_t> ends = shares_of(catalog, some, options);
    parallel_for(options.workers, ends.size(), stop, [&](unsigned, uint64_t n) {
      const size_t first = n == 0 ? 0 : ends[n - 1];
      batch(items, catalog, some.subspan(first, ends[n] - first));
    });
  };
  read(wanted);
  if (!alike.empty()) read(predict(files, alike, options.limits, out));
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
