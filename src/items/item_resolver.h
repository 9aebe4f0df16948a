// Resolves one item for resolve(). Several workers call it at the same time.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "items/item_source.h"
#include "items/resolve.h"

namespace dcp {

// One item to examine. `tensor` is kNone for a byte item and for another rank's copy.
struct Wanted {
  ItemId item = 0;
  TensorId tensor = kNone;
  uint32_t chunk = 0;  // within the tensor
  BlobId blob = kNone;
  uint32_t duplicate = kNone;
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
  std::atomic<uint64_t> bytes_read_{0}, checked_{0}, without_crc_{0};
  std::atomic<uint64_t> held_{0};         // bytes of byte items
  std::atomic<uint64_t> torch_bytes_{0};  // of these, from a torch.save file
};

}  // namespace dcp
