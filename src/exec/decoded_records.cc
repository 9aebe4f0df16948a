#include "exec/decoded_records.h"

#include <algorithm>

#include "base/checked.h"
#include "base/limits.h"

namespace dcp {

DecodedRecords::Open DecodedRecords::begin(ItemId item, ItemId record) {
  const ItemInfo& info = source_.resolved.items[item];
  const Item& item_source = source_of(source_, item);
  const bool deflated = item_source.transforms == Item::kDeflated;
  Open open{.record = record, .place = source_.catalog.place_of(item, source_.catalog.key_of_item(item)), .decoder = nullptr, .held = {}};
  // A deflated record is its own stream; the record of any other transformed item lies somewhere in the decoded archive.
  uint64_t before = deflated ? 0 : info.record;
  if (deflated) open.place.offset = item_source.offset, open.place.length = item_source.length;
  const uint64_t cap =
      deflated ? info.record_bytes : add_or_fail(add_or_fail(before, info.record_bytes, open.place), 16 * kMiB, open.place);
  open.decoder = std::make_unique<ItemDecoder>(source_.files, item_source, open.place, cap);
  bytes_read_.fetch_add(item_source.length, std::memory_order_relaxed);
  std::vector<std::byte> dropped(std::min<uint64_t>(before, 256 * kKiB));
  while (before > 0) {
    const size_t n = open.decoder->read(MutableBytes(dropped).first(std::min<uint64_t>(before, dropped.size())));
    if (n == 0) fail(ProblemId::zstd_truncated, open.place, "an end before the record", "the record");
    before -= n;
  }
  return open;
}

DecodedRecords::Open& DecodedRecords::open(ItemId item, uint64_t at) {
  const ItemId record = source_.resolved.views.any() ? source_.resolved.views.record[item] : item;
  const auto found = std::ranges::find(open_, record, &Open::record);
  if (found != open_.end() && found->begin <= at) {
    std::rotate(open_.begin(), found, found + 1);
    return open_.front();
  }
  if (found != open_.end()) open_.erase(found);
  if (open_.size() == kMax) open_.pop_back();
  open_.push_front(begin(item, record));
  return open_.front();
}

// Decodes `bytes` more. Held bytes from `needed_from` on are kept.
void DecodedRecords::decode(Open& o, uint64_t bytes, uint64_t needed_from) {
  if (o.held.size() >= 2 * kKept) {
    const uint64_t drop = std::min<uint64_t>(o.held.size() - kKept, needed_from - o.begin);
    o.held.erase(o.held.begin(), o.held.begin() + static_cast<int64_t>(drop));
    o.begin += drop;
  }
  const uint64_t held = o.held.size();
  o.held.resize(held + bytes);
  const size_t n = o.decoder->read(MutableBytes(o.held).subspan(held));
  o.held.resize(held + n);
  if (n < bytes) fail(ProblemId::zstd_truncated, o.place, std::to_string(o.end()) + " bytes of the record", "more");
}

void DecodedRecords::read(ItemId item, uint64_t at, MutableBytes into) {
  Open& o = open(item, at);
  const uint64_t end = at + into.size();
  while (o.end() < end) decode(o, std::min(end - o.end(), kKept), std::min(at, o.end()));
  std::copy_n(o.held.begin() + static_cast<int64_t>(at - o.begin), into.size(), into.begin());
}

}  // namespace dcp
