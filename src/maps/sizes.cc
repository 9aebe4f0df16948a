#include "maps/sizes.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/text.h"

namespace dcp::maps {
namespace {

using From = Known::From;

constexpr Word kNoWord = UINT32_MAX;

// The size of an axis if `unknown` were `guess`; nothing if it overflows or another word is not known.
std::optional<uint64_t> size_of(const Axis& axis, const Values& values, const std::vector<Word>& same, Word unknown, uint64_t guess) {
  if (axis.kind == Axis::Kind::kOne) return 1;
  if (axis.kind == Axis::Kind::kAxis) {
    if (values[axis.word]) return values[axis.word].value;
    return same[axis.word] == unknown ? std::optional(guess) : std::nullopt;
  }
  uint64_t all = axis.kind == Axis::Kind::kProduct ? 1 : 0;
  for (const Axis& one : axis.of) {
    const auto size = size_of(one, values, same, unknown, guess);
    const auto next = !size ? std::nullopt : axis.kind == Axis::Kind::kProduct ? checked_mul(all, *size) : checked_add(all, *size);
    if (!next) return {};
    all = *next;
  }
  return all;
}

void add_words(const Axis& axis, std::vector<Word>& all) {
  if (axis.kind == Axis::Kind::kAxis && std::ranges::find(all, axis.word) == all.end()) all.push_back(axis.word);
  for (const Axis& one : axis.of) add_words(one, all);
}

// `unknown` of a + b * unknown = size; nullopt if that is not a whole number, or if b is 0.
std::optional<uint64_t> solve_for(const Axis& dim, uint64_t size, const Values& values, const std::vector<Word>& same, Word unknown) {
  const auto none = size_of(dim, values, same, unknown, 0), one = size_of(dim, values, same, unknown, 1);
  if (!none || !one || *one == *none || size < *none || (size - *none) % (*one - *none) != 0) return {};
  const uint64_t found = (size - *none) / (*one - *none);
  // Two axes that are the same by a `size` line may make a square.
  return size_of(dim, values, same, unknown, found) == size ? std::optional(found) : std::nullopt;
}

}  // namespace

std::vector<Word> words_of(const Axis& axis) {
  std::vector<Word> all;
  add_words(axis, all);
  return all;
}

Sizes::Sizes(const ModelMap& map, const Config& config, const std::vector<Setting>& settings)
    : map_(map), config_(config), is_global_(map.is_index), global_(map.words.size()), same_(map.words.size()) {
  std::iota(same_.begin(), same_.end(), Word{0});
  for (const Size& size : map.sizes)
    if (size.value.kind == Expression::Kind::kSize) same_[size.word] = same_[size.value.size];
  for (Word w = 0; w < map.words.size(); ++w) {
    const std::string& text = map.words[w];
    uint64_t number = 0;
    if (text[0] < '0' || text[0] > '9') continue;
    std::from_chars(text.data(), text.data() + text.size(), number);
    global_[w] = {From::kNumber, 0, number};
    is_global_[w] = true;
  }
  for (const Setting& s : settings) {
    const auto it = map.word_ids.find(s.name);
    if (it == map.word_ids.end()) continue;
    const auto number = decimal<uint64_t>(s.value);
    if (!number || *number > (uint64_t{1} << 62))
      fail(ProblemId::map_setting, {}, s.name + "=" + s.value, "a size: " + s.name + " is an axis of the map");
    global_[it->second] = {From::kSetting, 0, *number};
    is_global_[it->second] = true;
  }
  for (uint32_t i = 0; i < map.sizes.size(); ++i) {
    const Size& size = map.sizes[i];
    if (size.is_local) continue;
    is_global_[size.word] = true;
    if (global_[size.word]) continue;
    if (const auto value = evaluate(size.value, global_)) global_[size.word] = {From::kSizeLine, i, *value};
  }
}

void Sizes::set_index(Word word, uint64_t size, uint32_t source) { global_[word] = {From::kNames, source, size}; }

std::optional<uint64_t> Sizes::evaluate(const Expression& e, const Values& values) const {
  using Kind = Expression::Kind;
  if (e.kind == Kind::kNumber) return e.number;
  if (e.kind == Kind::kPath) return config_.number(e.path);
  if (e.kind == Kind::kSize) return values[e.size] ? std::optional(values[e.size].value) : std::nullopt;
  std::optional<uint64_t> all;
  for (const Expression& part : e.of) {
    const auto value = evaluate(part, values);
    if (e.kind == Kind::kElse) {
      if (value) return value;
      continue;
    }
    if (!value) return {};
    if (!all) {
      all = value;
      continue;
    }
    const std::string got = std::to_string(*all), by = std::to_string(*value);
    switch (e.kind) {
      case Kind::kAdd: all = checked_add(*all, *value); break;
      case Kind::kMultiply: all = checked_mul(*all, *value); break;
      case Kind::kSubtract:
        if (*value > *all) fail_at(map_, e.spot, ProblemId::map_size_remainder, got + " - " + by, "a size");
        all = *all - *value;
        break;
      default:
        if (*value == 0 || *all % *value != 0) fail_at(map_, e.spot, ProblemId::map_size_remainder, got + " / " + by, "no remainder");
        all = *all / *value;
    }
    if (!all || *all > (uint64_t{1} << 62))
      fail_at(map_, e.spot, ProblemId::map_too_many, "a size beyond 2^62", "a size that a tensor can have");
  }
  return all;
}

// The words of an axis whose sizes are not known, of those that a `size` line makes the same one.
std::vector<Word> Sizes::unknown_in(const Axis& axis, const Values& values) const {
  std::vector<Word> all;
  for (const Word w : words_of(axis))
    if (!values[w] && std::ranges::find(all, same_[w]) == all.end()) all.push_back(same_[w]);
  return all;
}

// A dim with one unknown: since an axis stands once in each part, the dim is a + b * unknown.
bool Sizes::learn_once(const Shaped& t, Values& values) const {
  bool is_new = false;
  if (t.shape.size() != t.tensor->dims.size()) return false;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    const std::vector<Word> unknown = unknown_in(t.tensor->dims[d], values);
    if (unknown.size() != 1) continue;
    const auto found = solve_for(t.tensor->dims[d], static_cast<uint64_t>(t.shape[d]), values, same_, unknown[0]);
    if (!found) continue;  // check() says what is wrong
    values[unknown[0]] = {From::kShape, t.source, *found};
    is_new = true;
  }
  return is_new;
}

bool Sizes::evaluate_local(Values& values) const {
  bool is_new = false;
  for (uint32_t i = 0; i < map_.sizes.size(); ++i) {
    const Size& size = map_.sizes[i];
    if (values[size.word]) {
      // x = y, read from its other end
      if (size.value.kind == Expression::Kind::kSize && size.is_local && !values[size.value.size]) {
        values[size.value.size] = {From::kSizeLine, i, values[size.word].value};
        is_new = true;
      }
      continue;
    }
    if (const auto value = evaluate(size.value, values)) {
      values[size.word] = {From::kSizeLine, i, *value};
      is_new = true;
    }
  }
  return is_new;
}

Values Sizes::solved(std::span<const Shaped> tensors) const {
  Values values = global_;
  for (bool goes_on = true; goes_on;) {
    goes_on = evaluate_local(values);
    for (const Shaped& t : tensors)
      if (t.tensor->has_axes) goes_on = learn_once(t, values) || goes_on;
  }
  return values;
}

void Sizes::learn(std::span<const Shaped> tensors) {
  const Values values = solved(tensors);
  for (Word w = 0; w < values.size(); ++w)
    if (is_global_[w] && !global_[w]) global_[w] = values[w];
}

Values Sizes::solve(std::span<const Shaped> tensors, const std::vector<std::string_view>& keys) const {
  Values values = solved(tensors);
  for (const Shaped& t : tensors) check(t, values, keys, false);
  return values;
}

void Sizes::compare(std::span<const Shaped> tensors, const std::vector<std::string_view>& keys) const {
  for (const Shaped& t : tensors) check(t, global_, keys, true);
}

std::string Sizes::describe(Word word, const Values& values, const std::vector<std::string_view>& keys) const {
  const Known& k = values[word];
  if (!k) return map_.word(word) + " not known";
  if (k.from == From::kNumber) return map_.word(word);
  std::string text = map_.word(word) + " = " + std::to_string(k.value) + " (";
  switch (k.from) {
    case From::kSetting: text += "as set"; break;
    case From::kSizeLine: {
      const Size& size = map_.sizes[k.at];
      const Expression* e = &size.value;
      if (e->kind == Expression::Kind::kElse)
        for (const Expression& part : e->of)
          if (evaluate(part, values)) {
            e = &part;
            break;
          }
      text += e->kind == Expression::Kind::kPath ? config_.source_of(e->path) : "line " + std::to_string(size.spot.line);
      break;
    }
    case From::kNames: text += "the names, such as " + shortened(keys[k.at]); break;
    default: text += "the shape of " + shortened(keys[k.at]);
  }
  return text + ")";
}

uint64_t Sizes::need(Word word, const Values& values, Spot spot) const {
  if (values[word]) return values[word].value;
  Problem p = problem_at(map_, spot, ProblemId::map_size_unknown, map_.word(word));
  p.names = {map_.word(word)};
  const auto size = std::ranges::find(map_.sizes, word, &Size::word);
  if (size != map_.sizes.end() && !config_.is_given()) p.expected = "the configuration of the model, which says it";
  throw Error(std::move(p));
}

void Sizes::check(const Shaped& t, const Values& values, const std::vector<std::string_view>& keys, bool may_lack) const {
  if (!t.tensor->has_axes) return;
  const auto differs = [&](Spot spot, ProblemId id, std::string expected) {
    Problem p = problem_at(map_, spot, id, shape_text(t.shape), std::move(expected));
    if (t.shape.size() == 1 && t.tensor->dims.size() > 1)
      p.hint = "this looks like a flat shard, which FSDP1 has in place of a parameter: export the full parameters, or consolidate its "
               "checkpoint";
    p.place.tensor = keys[t.source];
    throw Error(std::move(p));
  };
  if (t.shape.size() != t.tensor->dims.size())
    differs(t.tensor->spot, ProblemId::map_size_differs, std::to_string(t.tensor->dims.size()) + " dims");
  for (size_t d = 0; d < t.shape.size(); ++d) {
    const Axis& dim = t.tensor->dims[d];
    std::string where, unknowns;
    for (const Word w : words_of(dim))
      if (values[w] && values[w].from != From::kNumber) where += (where.empty() ? ", where " : ", ") + describe(w, values, keys);
    const std::vector<Word> unknown = unknown_in(dim, values);
    for (const Word w : unknown) unknowns += (unknowns.empty() ? "" : " and ") + map_.word(w);
    const std::string at = "dim " + std::to_string(d) + " to be " + to_text(map_, dim);
    const auto size = static_cast<uint64_t>(t.shape[d]);
    if (unknown.empty()) {
      const auto made = size_of(dim, values, same_, kNoWord, 0);
      if (made != size)
        differs(dim.spot, ProblemId::map_size_differs, at + " = " + (made ? std::to_string(*made) : "more than 2^64") + where);
      continue;
    }
    if (unknown.size() == 1) {
      const auto none = size_of(dim, values, same_, unknown[0], 0), one = size_of(dim, values, same_, unknown[0], 1);
      if (!none || !one || size < *none || (*one == *none && size != *none)) differs(dim.spot, ProblemId::map_size_differs, at + where);
      if (*one != *none && (!may_lack || (size - *none) % (*one - *none) != 0))
        differs(dim.spot, ProblemId::map_size_remainder, at + ", of which " + unknowns + " has no whole size" + where);
    }
    if (may_lack) continue;
    Problem p = problem_at(map_, dim.spot, ProblemId::map_size_unknown,
                           unknowns + " in " + to_text(map_, dim) + " = " + std::to_string(size) + where);
    p.place.tensor = keys[t.source];
    p.names = {map_.word(unknown[0])};
    throw Error(std::move(p));
  }
}

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

Grid grid_of(const ModelMap& map, const LineTensor& tensor, const std::function<uint64_t(Word, Spot)>& size_of, const Limits& limits) {
  Grid grid{.shape = {}, .pieces = {{}}};
  for (uint32_t d = 0; d < tensor.dims.size(); ++d) {
    const Axis& dim = tensor.dims[d];
    const Extent extent = expand(map, dim, [&](Word w) { return size_of(w, dim.spot); }, limits.map_blocks);
    grid.shape.push_back(static_cast<int64_t>(extent.size));
    std::vector<Piece> next;
    for (const Piece& before : grid.pieces) {
      for (const Part& part : extent.parts) {
        Piece& piece = next.emplace_back(before);
        piece.at.push_back(static_cast<int64_t>(part.offset));
        for (const Step& s : part.steps) piece.axes.push_back({s.word, d, s.size, s.step});
      }
    }
    grid.pieces = std::move(next);
  }
  return grid;
}

void check_elements(const ModelMap& map, const LineTensor& tensor, const Grid& grid) {
  uint64_t all = 1;
  for (const int64_t d : grid.shape) {
    const auto next = d == 0 ? std::optional<uint64_t>(all) : checked_mul(all, static_cast<uint64_t>(d));
    if (!next || *next > (uint64_t{1} << 62))
      fail_at(map, tensor.spot, ProblemId::map_too_many, "a tensor beyond 2^62 elements", "a size that a tensor can have");
    all = *next;
  }
}

}  // namespace dcp::maps
