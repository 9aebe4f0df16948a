#include "maps/whole.h"

#include <algorithm>
#include <map>
#include <utility>

#include "maps/line_reader.h"

namespace dcp::maps {
namespace {

// Names say where their numbers begin and end. True: it ends in {*}.
bool check_name(const ModelMap& map, const Name& name) {
  using Kind = NamePart::Kind;
  const auto bad = [&](std::string got, std::string expected) {
    fail_at(map, name.spot, ProblemId::map_syntax, std::move(got) + " in " + to_text(map, name), std::move(expected));
  };
  for (size_t i = 0; i < name.parts.size(); ++i) {
    const NamePart& p = name.parts[i];
    const NamePart* const before = i > 0 ? &name.parts[i - 1] : nullptr;
    if (before != nullptr && p.kind != Kind::kText && before->kind != Kind::kText &&
        (p.kind != Kind::kRest || before->kind != Kind::kVariable))
      bad("two adjacent pieces", "a text between them");
    if (p.kind == Kind::kRest) {
      if (i + 1 != name.parts.size()) bad("{*}", "it at the end");
      if (before != nullptr && (before->kind == Kind::kVariable || !before->text.ends_with('.')))
        bad("{*} within a word", "'.{*}', or {*} alone");
      if (std::ranges::any_of(name.parts, [](const NamePart& o) { return o.kind == Kind::kIndex; })) bad("{*} after an index", "a text");
      return true;
    }
    if (p.kind == Kind::kText) continue;
    // What touches an index must not be a digit: 1{x} would be 12 for x = 2, and 1{x} for any.
    const NamePart* const after = i + 1 < name.parts.size() ? &name.parts[i + 1] : nullptr;
    if ((before != nullptr && before->kind == Kind::kText && is_digit(before->text.back())) ||
        (after != nullptr && after->kind == Kind::kText && is_digit(after->text.front())))
      bad("a digit next to an index or a piece", "another sign between them");
  }
  return false;
}

bool alike(const std::vector<Axis>& a, const std::vector<Axis>& b) {
  return std::ranges::equal(a, b, [](const Axis& x, const Axis& y) { return x.kind == y.kind && x.word == y.word && alike(x.of, y.of); });
}

// Words of expressions that are sizes, axes or indexes; others are keys of config.json. `size x = x` asks for the key x.
void resolve(const ModelMap& map, Expression& e, Word own) {
  for (Expression& part : e.of) resolve(map, part, own);
  if (e.kind != Expression::Kind::kPath) return;
  const auto it = map.word_ids.find(e.path);
  if (it == map.word_ids.end() || it->second == own) return;
  e.kind = Expression::Kind::kSize;
  e.size = it->second;
}

std::vector<Word> needs(const Expression& e) {
  std::vector<Word> all;
  if (e.kind == Expression::Kind::kSize) all.push_back(e.size);
  for (const Expression& part : e.of) {
    const std::vector<Word> more = needs(part);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

// Sizes after those that they are made of, so that one pass evaluates all; those with an axis of a line in them are the line's.
void order_sizes(ModelMap& map) {
  std::vector<Size> ordered;
  std::vector<uint8_t> state(map.words.size());  // 1: being visited, 2: done
  std::map<Word, size_t> by_word;
  for (size_t i = 0; i < map.sizes.size(); ++i) by_word[map.sizes[i].word] = i;
  std::vector<std::pair<size_t, std::vector<Word>>> stack;  // a size, and what it still waits for
  const auto visit = [&](size_t i) {
    state[map.sizes[i].word] = 1;
    stack.emplace_back(i, needs(map.sizes[i].value));
  };
  for (size_t i = 0; i < map.sizes.size(); ++i) {
    if (state[map.sizes[i].word] == 2) continue;
    visit(i);
    while (!stack.empty()) {
      auto& [at, waits] = stack.back();
      Size& size = map.sizes[at];
      if (waits.empty()) {
        for (const Word w : needs(size.value)) {
          const auto of = by_word.find(w);  // of a size that stands before, if it is one
          size.is_local = size.is_local || (of != by_word.end() ? map.sizes[of->second].is_local : !map.is_index[w]);
        }
        if (size.is_local && map.is_index[size.word])
          fail_at(map, size.spot, ProblemId::map_syntax, "an index counted by an axis of a line", "a size that holds for the whole map");
        state[size.word] = 2;
        ordered.push_back(size);
        stack.pop_back();
        continue;
      }
      const Word w = waits.back();
      waits.pop_back();
      if (state[w] == 1) fail_at(map, size.spot, ProblemId::map_syntax, "a size defined by itself", "another value");
      if (const auto it = by_word.find(w); it != by_word.end() && state[w] == 0) visit(it->second);
    }
  }
  map.sizes = std::move(ordered);
}

}  // namespace

void check_line(const ModelMap& map, Line& line, bool in_block) {
  const auto bad = [&](Spot spot, std::string got, std::string expected) {
    fail_at(map, spot, ProblemId::map_syntax, std::move(got), std::move(expected));
  };
  if (line.sides[0].empty() && line.sides[1].empty()) bad(line.spot, "none on both sides", "a tensor on one");
  size_t rests = 0, names = 0, tensors = 0, with_axes = 0;
  for (const auto& side : line.sides) {
    for (const Tensor& t : side) {
      ++tensors;
      with_axes += t.has_axes;
      for (const Name& n : t.names) {
        ++names;
        rests += check_name(map, n);
      }
      if (!t.same_as.empty() && check_name(map, t.same_as[0])) bad(t.same_as[0].spot, "{*}", "the name of one tensor");
      if (!t.same_as.empty() && (t.names.size() > 1 || side.size() > 1))
        bad(t.same_as[0].spot, "'same as' of several names", "a line with one tensor on this side, which has one name");
    }
  }
  line.is_rest = rests > 0;
  if (line.is_rest && (rests != names || tensors > 2 || names != tensors || with_axes > 0 || in_block))
    bad(line.spot, "{*} in a line of several tensors, with axes or in a block", "one name with {*} on each side");
  if (line.sides[0].empty() || line.sides[1].empty()) return;
  if (with_axes != 0 && with_axes != tensors) bad(line.spot, "axes of some tensors", "axes of all tensors of a line, or of none");
  if (with_axes == 0 && tensors != 2) bad(line.spot, "several tensors on a side", "the axes of all of them in brackets");
  const Tensor &left = line.sides[0][0], &right = line.sides[1][0];
  line.moves_nothing = with_axes == 2 && tensors == 2 && alike(left.dims, right.dims) && left.indexes == right.indexes;
  if (!left.same_as.empty() && !right.same_as.empty()) bad(line.spot, "'same as' on both sides", "it on one");
}

void settle_sizes(ModelMap& map) {
  for (Size& size : map.sizes) resolve(map, size.value, size.word);
  order_sizes(map);
}

}  // namespace dcp::maps
