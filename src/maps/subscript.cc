#include "maps/subscript.h"

#include <algorithm>

#include "base/text.h"

namespace dcp {
namespace {

constexpr std::string_view kBlanks = " \t";

[[noreturn]] void refuse(std::string_view slice, const std::string& got, const std::string& expected) {
  fail(ProblemId::usage, {}, "slice '" + std::string(slice) + "'" + got, expected);
}

constexpr const char* kForms = "integers, START:STOP:STEP and '...', with commas between dims, such as '0:4, :8'";

}  // namespace

Subscript::Term Subscript::term_of(std::string_view text, std::string_view all) {
  if (text == "...") return {.kind = Term::Kind::kEllipsis, .start = {}, .stop = {}, .step = {}};
  const auto number = [&](std::string_view digits) {
    std::string_view plain = digits;
    if (plain.starts_with('+')) plain.remove_prefix(1);
    const auto n = decimal<int64_t>(plain);
    if (!n || digits.starts_with("+-")) refuse(all, ", of which '" + std::string(digits) + "' is not an integer", kForms);
    return *n;
  };
  const std::vector<std::string_view> parts = split(text, ':', kBlanks);
  if (parts.size() == 1) return {.kind = Term::Kind::kIndex, .start = number(text), .stop = {}, .step = {}};
  if (parts.size() > 3) refuse(all, "", kForms);
  Term term;
  std::optional<int64_t> Term::* const members[] = {&Term::start, &Term::stop, &Term::step};
  for (size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].empty()) term.*members[i] = number(parts[i]);
  if (term.step && *term.step < 1) refuse(all, ": a step of " + std::to_string(*term.step), "steps above 0, as torch has them");
  return term;
}

Subscript Subscript::parse(std::string_view text) {
  Subscript slice;
  slice.text_ = text;
  slice.terms_.clear();
  std::string_view inner = trimmed(text, kBlanks);
  if (inner.starts_with('[') && inner.ends_with(']') && inner.size() > 1) inner = trimmed(inner.substr(1, inner.size() - 2), kBlanks);
  if (inner.ends_with(',')) inner = trimmed(inner.substr(0, inner.size() - 1), kBlanks);
  if (inner.empty()) refuse(text, "", kForms);
  for (const std::string_view part : split(inner, ',', kBlanks)) {
    if (part.empty()) refuse(text, "", kForms);
    slice.terms_.push_back(term_of(part, text));
  }
  if (std::ranges::count(slice.terms_, Term::Kind::kEllipsis, &Term::kind) > 1) refuse(text, ": more than one '...'", "one at most");
  return slice;
}

std::vector<SliceAxis> Subscript::of(Dims dims) const {
  const bool open = std::ranges::find(terms_, Term::Kind::kEllipsis, &Term::kind) != terms_.end();
  const size_t given = terms_.size() - (open ? 1 : 0);
  if (given > dims.size())
    refuse(text_, " for " + std::to_string(given) + (given == 1 ? " dim" : " dims"),
           dims.empty() ? "'...': the tensor is a scalar" : std::to_string(dims.size()) + " at most");
  std::vector<SliceAxis> axes;
  const auto whole = [&](size_t up_to) {
    while (axes.size() < up_to) axes.push_back({.count = dims[axes.size()]});
  };
  size_t left = given;  // terms of dims that come
  for (const Term& t : terms_) {
    if (t.kind == Term::Kind::kEllipsis) {
      whole(dims.size() - left);
      continue;
    }
    --left;
    const int64_t size = dims[axes.size()];
    if (t.kind == Term::Kind::kIndex) {
      if (*t.start < -size || *t.start >= size)
        refuse(text_, ": index " + std::to_string(*t.start) + " of dim " + std::to_string(axes.size()),
               size == 0 ? "a range: the dim has no elements" : std::to_string(-size) + " to " + std::to_string(size - 1));
      axes.push_back({.start = *t.start < 0 ? *t.start + size : *t.start, .count = 1, .kept = false});
      continue;
    }
    const auto bound = [&](int64_t n) { return n < 0 ? std::max<int64_t>(n < -size ? 0 : n + size, 0) : std::min(n, size); };
    const int64_t start = bound(t.start.value_or(0)), stop = bound(t.stop.value_or(size)), step = t.step.value_or(1);
    axes.push_back({.start = start, .step = step, .count = stop > start ? (stop - start - 1) / step + 1 : 0});
  }
  whole(dims.size());
  return axes;
}

std::vector<int64_t> shape_of(const std::vector<SliceAxis>& axes) {
  std::vector<int64_t> shape;
  for (const SliceAxis& a : axes)
    if (a.kept) shape.push_back(a.count);
  return shape;
}

IndexMap map_of(const Catalog& catalog, TensorId id, const std::vector<SliceAxis>& axes) {
  const Tensor& t = catalog.tensors[id];
  IndexMap map{
      .key = std::string(catalog.key(t)), .dtype = t.dtype, .requires_grad = t.requires_grad, .shape = shape_of(axes), .blocks = {}};
  if (volume(map.shape) == 0) return map;
  IndexBlock block{.source = id, .target_at = std::vector<int64_t>(map.shape.size(), 0), .source_at = {}, .axes = {}};
  uint32_t target = 0;
  for (uint32_t d = 0; d < axes.size(); ++d) {
    block.source_at.push_back(axes[d].start);
    if (!axes[d].kept) continue;
    if (axes[d].count > 1)
      block.axes.push_back({.size = axes[d].count, .target_dim = target, .target_step = 1, .source_dim = d, .source_step = axes[d].step});
    ++target;
  }
  map.blocks.push_back(std::move(block));
  return map;
}

std::vector<bool> files_of(const Catalog& catalog, TensorId id, const std::vector<SliceAxis>& axes) {
  const Tensor& t = catalog.tensors[id];
  std::vector<bool> wanted(catalog.files.size());
  const auto crosses = [&](const SliceAxis& a, int64_t offset, int64_t size) {
    if (a.count == 0 || size == 0) return false;
    const int64_t first = offset <= a.start ? 0 : (offset - a.start - 1) / a.step + 1;  // the first index at or behind the offset
    return first < a.count && a.start + first * a.step < offset + size;
  };
  for (uint32_t c = 0; c < t.chunk_count; ++c) {
    const BoxView box = catalog.box(t, c);
    bool all = true;
    for (size_t d = 0; d < axes.size(); ++d) all = all && crosses(axes[d], box.offsets[d], box.sizes[d]);
    const uint32_t file = catalog.items[catalog.item_of(t, c)].file;
    if (all && file != kNone) wanted[file] = true;
  }
  return wanted;
}

}  // namespace dcp
