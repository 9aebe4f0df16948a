#include "plan/record_cover.h"

#include <algorithm>
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

}  // namespace dcp
