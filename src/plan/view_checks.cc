#include "plan/view_checks.h"

#include <algorithm>
#include <numeric>

#include "plan/record_cover.h"

namespace dcp {

bool ViewChecks::is_readable(const Tensor& t, uint32_t chunk, const std::vector<int64_t>& steps) const {
  if (catalog_.items[catalog_.item_of(t, chunk)].file == kNone) return true;  // zeros
  uint64_t first = 0, run = 1, all = 1;
  std::vector<ViewAxis> axes = axes_of({catalog_, resolved_}, t, chunk, first);
  std::ranges::stable_sort(axes, {}, &ViewAxis::stride);
  bool dense = true;
  for (const ViewAxis& a : axes) {
    const int64_t part = std::clamp<int64_t>(steps[a.dim] / a.step, 1, a.size);
    dense = dense && a.stride == static_cast<int64_t>(run);
    if (dense) run *= static_cast<uint64_t>(part);
    dense = dense && part == a.size;
    all *= static_cast<uint64_t>(part);
  }
  return run == all || run * bytes_of(resolved_.items[catalog_.item_of(t, chunk)].dtype) >= options_.min_run;
}

void ViewChecks::finish() {
  plan_.summed_at.resize(catalog_.items.size());
  std::iota(plan_.summed_at.begin(), plan_.summed_at.end(), ItemId{0});
  std::ranges::stable_sort(seen_, {}, &Seen::record);
  for (size_t first = 0, end = 0; first < seen_.size(); first = end) {
    while (end < seen_.size() && seen_[end].record == seen_[first].record) ++end;
    check_record(std::span(seen_).subspan(first, end - first));
  }
}

void ViewChecks::check_record(std::span<const Seen> views) {
  const ItemId item = item_of(views[0]);
  const ItemInfo& info = resolved_.items[item];
  if (!info.has_crc && info.record_bytes > 0) ++plan_.unchecked_records;
  if (!options_.verify || !info.has_crc || info.record_bytes == 0) return;
  // A unit that decodes an item sees all of it.
  if (const auto decoded = std::ranges::find(views, How::kDecoded, &Seen::how); decoded != views.end()) {
    plan_.checks[item_of(*decoded)] = CrcCheck::kFromUnits;
  } else if (!sum_on_the_way(views, info)) {
    plan_.checks[item] = CrcCheck::kSeparatePass;
    plan_.records.push_back(
        {.offset = info.record, .bytes = info.record_bytes, .item = item, .crc = info.crc, .has_crc = true, .is_data = true});
  }
}

bool ViewChecks::sum_on_the_way(std::span<const Seen> views, const ItemInfo& info) {
  std::vector<Positions> positions;
  std::vector<ItemId> items;
  for (const Seen& s : views) {
    const ItemId item = item_of(s);
    if (s.how != How::kReadable || resolved_.items[item].dtype != info.dtype) continue;
    uint64_t first = 0;
    bool once = false;
    const std::vector<ViewAxis> axes = axes_of({catalog_, resolved_}, catalog_.tensors[s.tensor], s.chunk, first);
    Positions p = positions_of(first, axes, once);
    if (!once) continue;
    positions.push_back(std::move(p));
    items.push_back(item);
  }
  const uint64_t element = bytes_of(info.dtype);
  if (info.record_bytes % element != 0) return false;
  const RecordCover cover = cover_of(positions, info.record_bytes / element);
  const uint64_t most_gaps = std::max<uint64_t>(16, info.record_bytes / options_.min_run);
  if (cover.views.empty() || cover.gaps.size() > most_gaps) return false;
  const ItemId first = items[cover.views[0]];
  for (const uint32_t n : cover.views) {
    plan_.checks[items[n]] = CrcCheck::kFromUnits;
    plan_.summed_at[items[n]] = first;
  }
  for (const auto& [begin, end] : cover.gaps)
    plan_.records.push_back({.offset = info.record + begin * element, .bytes = (end - begin) * element, .item = first, .is_data = true});
  return true;
}

}  // namespace dcp
