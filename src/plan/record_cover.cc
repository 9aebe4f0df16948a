#include "plan/record_cover.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace dcp {

uint64_t Positions::count() const {
  uint64_t n = 1;
  for (const ViewAxis& a : axes) n *= static_cast<uint64_t>(a.size);
  return n;
}

uint64_t Positions::end() const {
  uint64_t last = first;
  for (const ViewAxis& a : axes) last += static_cast<uint64_t>((a.size - 1) * a.stride);
  return last + 1;
}

Positions positions_of(uint64_t first, std::span<const ViewAxis> axes, bool& once) {
  Positions p{.first = first, .axes = {}};
  std::vector<ViewAxis> sorted(axes.begin(), axes.end());
  std::ranges::stable_sort(sorted, {}, &ViewAxis::stride);
  once = true;
  int64_t reach = 1;  // of the axes so far
  for (const ViewAxis& a : sorted) {
    if (a.size == 1) continue;
    once = once && a.stride >= reach;
    reach += (a.size - 1) * a.stride;
    if (!p.axes.empty() && a.stride == p.axes.back().stride * p.axes.back().size) p.axes.back().size *= a.size;
    else p.axes.push_back({.size = a.size, .stride = a.stride});
  }
  std::ranges::reverse(p.axes);
  return p;
}

namespace {

using Axes = std::span<const ViewAxis>;

int64_t reach_of(Axes axes) {
  int64_t reach = 1;
  for (const ViewAxis& a : axes) reach += (a.size - 1) * a.stride;
  return reach;
}

// Whether the two surely have no position in common.
bool apart(int64_t a_at, Axes a, int64_t b_at, Axes b) {
  const int64_t a_reach = reach_of(a), b_reach = reach_of(b);
  if (a_at + a_reach <= b_at || b_at + b_reach <= a_at) return true;
  if (a.empty() || b.empty() || a[0].stride != b[0].stride) return false;
  // Both advance by the same step, so only their places within a step matter.
  const int64_t step = a[0].stride;
  const int64_t in_a = a_at % step, in_b = b_at % step;
  a = a.subspan(1);
  b = b.subspan(1);
  return in_a + reach_of(a) <= step && in_b + reach_of(b) <= step && apart(in_a, a, in_b, b);
}

}  // namespace

RecordCover cover_of(std::span<const Positions> views, uint64_t total) {
  std::vector<uint32_t> order(views.size());
  for (uint32_t n = 0; n < order.size(); ++n) order[n] = n;
  std::ranges::sort(order, {}, [&](uint32_t n) { return std::tuple(views[n].first, ~views[n].count(), n); });
  RecordCover cover;
  std::vector<uint32_t> open;      // those that may reach the next one
  uint64_t seen = 0, missing = 0;  // positions before `end`: of views, in gaps
  uint64_t end = 0;                // of those so far
  for (const uint32_t n : order) {
    const Positions& p = views[n];
    std::erase_if(open, [&](uint32_t o) { return views[o].end() <= p.first; });
    const auto is_apart = [&](uint32_t o) {
      return apart(static_cast<int64_t>(views[o].first), views[o].axes, static_cast<int64_t>(p.first), p.axes);
    };
    if (p.end() > total || !std::ranges::all_of(open, is_apart)) continue;
    if (p.first > end) {
      cover.gaps.emplace_back(end, p.first);
      missing += p.first - end;
    }
    open.push_back(n);
    cover.views.push_back(n);
    seen += p.count();
    end = std::max(end, p.end());
  }
  if (end < total) cover.gaps.emplace_back(end, total);
  return seen + missing == end ? cover : RecordCover{};
}

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
