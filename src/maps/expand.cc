#include "maps/expand.h"

#include <utility>

#include "base/checked.h"

namespace dcp::maps {
namespace {

uint64_t bounded(const ModelMap& map, const Axis& axis, std::optional<uint64_t> size) {
  if (size && *size <= (uint64_t{1} << 62)) return *size;
  fail_at(map, axis.spot, ProblemId::map_too_many, to_text(map, axis) + " beyond 2^62 elements", "a size that a tensor can have");
}

// Each part of `slow` beside each of `fast`, which lies within one step of it.
Extent multiplied(const ModelMap& map, const Axis& axis, Extent slow, const Extent& fast, uint64_t max) {
  Extent both{.size = bounded(map, axis, checked_mul(slow.size, fast.size)), .parts = {}};
  if (slow.parts.size() * fast.parts.size() > max)
    fail_at(map, axis.spot, ProblemId::map_too_many, "more than " + std::to_string(max) + " parts of a tensor", "fewer sums");
  for (Part& s : slow.parts) {
    s.offset *= fast.size;  // offset <= size, whose product was checked
    for (Step& step : s.steps) step.step *= fast.size;
    for (const Part& f : fast.parts) {
      Part& part = both.parts.emplace_back(s);
      part.offset += f.offset;
      part.steps.insert(part.steps.end(), f.steps.begin(), f.steps.end());
    }
  }
  return both;
}

}  // namespace

Extent expand(const ModelMap& map, const Axis& axis, const std::function<uint64_t(Word)>& size_of, uint64_t max) {
  if (axis.kind == Axis::Kind::kAxis) {
    const uint64_t size = bounded(map, axis, size_of(axis.word));
    return {.size = size, .parts = {{.offset = 0, .steps = {{.word = axis.word, .size = size, .step = 1}}}}};
  }
  Extent all{.size = 1, .parts = {{}}};
  if (axis.kind == Axis::Kind::kSum) all = {.size = 0, .parts = {}};
  for (const Axis& one : axis.of) {
    Extent next = expand(map, one, size_of, max);
    if (axis.kind == Axis::Kind::kProduct) {
      all = multiplied(map, axis, std::move(all), next, max);
      continue;
    }
    for (Part& p : next.parts) {
      p.offset += all.size;
      all.parts.push_back(std::move(p));
    }
    all.size = bounded(map, axis, checked_add(all.size, next.size));
    if (all.parts.size() > max)
      fail_at(map, axis.spot, ProblemId::map_too_many, "more than " + std::to_string(max) + " parts of a tensor", "fewer sums");
  }
  return all;
}

}  // namespace dcp::maps
