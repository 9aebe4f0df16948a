#include <algorithm>
#include <utility>

#include "maps/parse_line.h"

namespace dcp::maps {
namespace {

class SideParser {
 public:
  SideParser(LineReader& in, MapText& text) : in_(in), text_(text) {}

  std::vector<Tensor> side() {
    std::vector<Tensor> all;
    if (in_.take_word("none")) return all;
    do {
      if (all.size() == kMaxFactors) text_.too_long(in_.spot(), "more tensors", kMaxFactors);
      all.push_back(tensor());
    } while (in_.take(','));
    return all;
  }

 private:
  Tensor tensor() {
    Tensor t;
    t.spot = in_.spot();
    do t.names.push_back(name());
    while (in_.take('|'));
    t.indexes = indexes_of(t.names[0]);
    for (const Name& n : t.names) {
      auto one = indexes_of(n), first = t.indexes;
      std::ranges::sort(one);
      std::ranges::sort(first);
      if (one != first)
        fail_at(text_.map, n.spot, ProblemId::map_syntax, to_text(text_.map, n),
                "the same indexes as in " + to_text(text_.map, t.names[0]));
    }
    if (in_.take('[')) {
      t.has_axes = true;
      while (!in_.take(']')) {
        if (t.dims.size() == text_.limits.tensor_rank) text_.too_long(in_.spot(), "more dims", text_.limits.tensor_rank);
        t.dims.push_back(atom(0));
      }
    }
    if (in_.take_word("same")) {
      if (!in_.take_word("as")) in_.fail_here("'as'");
      t.same_as.push_back(name());
      for (const Word w : indexes_of(t.same_as[0]))
        if (std::ranges::find(t.indexes, w) == t.indexes.end())
          fail_at(text_.map, t.same_as[0].spot, ProblemId::map_syntax, to_text(text_.map, t.same_as[0]),
                  "indexes of " + to_text(text_.map, t.names[0]));
    }
    return t;
  }

  std::vector<Word> indexes_of(const Name& name) const {
    std::vector<Word> all;
    for (const NamePart& p : name.parts) {
      if (p.kind != NamePart::Kind::kIndex) continue;
      if (std::ranges::find(all, p.index) != all.end())
        fail_at(text_.map, name.spot, ProblemId::map_syntax, "the index " + text_.map.word(p.index) + " twice", "each once in a name");
      all.push_back(p.index);
    }
    return all;
  }

  Name name() {
    Name name;
    name.spot = in_.spot();
    for (;;) {
      NamePart part;
      if (in_.next() == '{') {
        part = braces();
      } else if (in_.next() == '$') {
        part = use();
      } else {
        part.text = in_.piece();
        if (part.text.empty()) break;
      }
      name.parts.push_back(std::move(part));
    }
    if (name.parts.empty()) in_.fail_here("the name of a tensor");
    in_.skip_space();
    return name;
  }

  NamePart use() {
    const Spot spot = in_.spot();
    in_.skip(1);
    std::string_view word = in_.peek();
    word = word.substr(0, static_cast<size_t>(std::ranges::find_if_not(word, is_word) - word.begin()));
    for (uint32_t v = 0; v < text_.map.variables.size(); ++v) {
      if (text_.map.variables[v].name != word) continue;
      in_.skip(word.size());
      NamePart part;
      part.kind = NamePart::Kind::kVariable;
      part.variable = v;
      return part;
    }
    fail_at(text_.map, spot, ProblemId::map_syntax, "$" + std::string(word),
            "a piece that 'name $" + std::string(word) + " = ...' before it says");
  }

  // {x}, {m+l}, {m+l+1}, {*}: the brace is next.
  NamePart braces() {
    NamePart part;
    in_.take('{');
    if (in_.take('*')) {
      part.kind = NamePart::Kind::kRest;
    } else {
      part.kind = NamePart::Kind::kIndex;
      part.index = text_.intern(in_.word("an index or '*'"));
      text_.map.is_index[part.index] = true;
      while (in_.take('+')) {
        if (part.after.size() == kDeepest) text_.too_long(in_.spot(), "more sizes to count on from", kDeepest);
        if (is_digit(in_.next())) {
          part.plus += std::min<uint64_t>(in_.number(), uint64_t{1} << 40);
        } else {
          part.after.push_back(text_.intern(in_.word("a size or a number")));
        }
      }
    }
    if (in_.next() != '}') in_.fail_here("'}'");
    in_.skip(1);  // and no spaces: the name goes on
    return part;
  }

  // An axis, a number, or what stands in parentheses.
  Axis atom(uint32_t depth) {
    if (depth == kDeepest) text_.too_long(in_.spot(), "parentheses nested deeper", kDeepest);
    const Spot spot = in_.spot();
    Axis axis;
    axis.spot = spot;
    if (in_.take('(')) {
      axis = summands(depth + 1);
      axis.spot = spot;
      in_.need(')', " for '('");
    } else if (is_digit(in_.next())) {
      const uint64_t number = in_.number();
      if (number == 0) fail_at(text_.map, axis.spot, ProblemId::map_syntax, "0", "an axis of at least one");
      if (number > 1) axis.kind = Axis::Kind::kAxis, axis.word = text_.intern(std::to_string(number));
    } else {
      axis.kind = Axis::Kind::kAxis;
      axis.word = text_.intern(in_.word(depth == 0 ? "an axis, '(' or ']'" : "an axis, '(' or ')'"));
    }
    if (axis.kind == Axis::Kind::kAxis) text_.map.is_axis[axis.word] = true;
    return axis;
  }
  Axis summands(uint32_t depth) {
    Axis sum{.kind = Axis::Kind::kSum, .word = 0, .of = {}, .spot = in_.spot()};
    do {
      if (sum.of.size() == kMaxFactors) text_.too_long(in_.spot(), "more summands", kMaxFactors);
      sum.of.push_back(factors(depth));
    } while (in_.take('+'));
    return sum.of.size() == 1 ? std::move(sum.of[0]) : sum;
  }
  Axis factors(uint32_t depth) {
    Axis product{.kind = Axis::Kind::kProduct, .word = 0, .of = {}, .spot = in_.spot()};
    do {
      if (product.of.size() == kMaxFactors) text_.too_long(in_.spot(), "more factors", kMaxFactors);
      product.of.push_back(atom(depth));
    } while (in_.next() != '+' && in_.next() != ')' && !in_.is_end());
    return product.of.size() == 1 ? std::move(product.of[0]) : product;
  }

  LineReader& in_;
  MapText& text_;
};

}  // namespace

std::vector<Tensor> parse_side(LineReader& in, MapText& text) { return SideParser(in, text).side(); }

}  // namespace dcp::maps
