#include "maps/parse.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/text.h"
#include "maps/model_map.h"

namespace dcp::maps {
namespace {

// Reads one line of a map's text from left to right: words, signs, numbers and pieces of names, with their positions.

bool is_space(char c) { return c == ' ' || c == '\t'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool ends_name(char c) { return is_space(c) || std::string_view("=,|[]()#").find(c) != std::string_view::npos; }

std::string quote(std::string_view text) { return "'" + std::string(text) + "'"; }

class LineReader {
 public:
  LineReader(const ModelMap& map, uint32_t line) : map_(map), text_(map.text[line - 1]), line_(line) { skip_space(); }

  Spot spot() const { return {line_, static_cast<uint32_t>(at_ + 1)}; }
  bool is_end() const { return at_ == text_.size(); }
  char next() const { return is_end() ? '\0' : text_[at_]; }

  bool take(char c) {
    if (next() != c || is_end()) return false;
    ++at_;
    skip_space();
    return true;
  }
  void need(char c, const char* after) {
    if (!take(c)) fail_here(quote(std::string(1, c)) + after);
  }
  // A word that stands alone.
  bool take_word(std::string_view word) {
    if (peek() != word) return false;
    at_ += word.size();
    skip_space();
    return true;
  }
  // The text from here up to a space or a sign.
  std::string_view peek() const {
    size_t end = at_;
    while (end < text_.size() && !ends_name(text_[end])) ++end;
    return std::string_view(text_).substr(at_, end - at_);
  }
  // The character after the word that begins here.
  char after_word() const {
    size_t at = at_ + peek().size();
    while (at < text_.size() && is_space(text_[at])) ++at;
    return at < text_.size() ? text_[at] : '\0';
  }
  std::string word(const char* expected) {
    size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    if (end == at_ || is_digit(text_[at_])) fail_here(expected);
    return taken(end);
  }
  // A word, or words joined by dots.
  std::string path(const char* expected) {
    size_t end = at_;
    while (end < text_.size() && (is_word(text_[end]) || text_[end] == '.' || text_[end] == '-')) ++end;
    if (end == at_ || is_digit(text_[at_]) || text_[at_] == '-') fail_here(expected);
    return taken(end);
  }
  uint64_t number() {
    size_t end = at_;
    while (end < text_.size() && is_digit(text_[end])) ++end;
    const auto value = decimal<uint64_t>(std::string_view(text_).substr(at_, end - at_));
    if (!value || *value > (uint64_t{1} << 62)) fail_here("a number below 2^62");
    taken(end);
    return *value;
  }
  // The piece of a name between its braces and variables.
  std::string piece() {
    size_t end = at_;
    while (end < text_.size() && !ends_name(text_[end]) && std::string_view("{}$").find(text_[end]) == std::string_view::npos) ++end;
    std::string text = text_.substr(at_, end - at_);
    at_ = end;
    return text;
  }
  void skip(size_t bytes) { at_ += bytes; }
  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    if (next() == '#' && (at_ == 0 || is_space(text_[at_ - 1]))) at_ = text_.size();  // a comment
  }
  std::string rest() {
    size_t end = at_;
    while (end < text_.size() && (text_[end] != '#' || !is_space(text_[end - 1]))) ++end;
    std::string text = text_.substr(at_, end - at_);
    while (!text.empty() && is_space(text.back())) text.pop_back();
    at_ = text_.size();
    return text;
  }
  void need_end() {
    if (!is_end()) fail_here("the end of the line");
  }
  [[noreturn]] void fail_here(std::string expected) const {
    const std::string_view here = peek();
    fail_at(map_, spot(), ProblemId::map_syntax,
            is_end() ? "the end of the line" : quote(here.empty() ? std::string_view(&text_[at_], 1) : here), std::move(expected));
  }

 private:
  std::string taken(size_t end) {
    std::string text = text_.substr(at_, end - at_);
    at_ = end;
    skip_space();
    return text;
  }

  const ModelMap& map_;
  const std::string& text_;
  uint32_t line_;
  size_t at_ = 0;
};

// Parses the two sides of a map line, and size expressions, from left to right.

constexpr uint32_t kDeepest = 16;     // parentheses in parentheses, blocks in blocks
constexpr size_t kMaxFactors = 1024;  // axes, summands or tensors beside one another

// A map whose text is being read.
struct MapText {
  ModelMap map;
  const Limits& limits;

  Word intern(const std::string& text);
  [[noreturn]] void too_long(Spot spot, const char* what, uint64_t max) const;
};

Word MapText::intern(const std::string& text) {
  const auto [it, is_new] = map.word_ids.try_emplace(text, static_cast<Word>(map.words.size()));
  if (is_new) {
    map.words.push_back(text);
    for (std::vector<bool>* flags : {&map.is_index, &map.is_size, &map.is_axis}) flags->push_back(false);
  }
  return it->second;
}

void MapText::too_long(Spot spot, const char* what, uint64_t max) const {
  fail_at(map, spot, ProblemId::over_limit, what, "at most " + std::to_string(max));
}

class ExpressionParser {
 public:
  ExpressionParser(LineReader& in, const MapText& text) : in_(in), text_(text) {}

  Expression alternatives(uint32_t depth) {
    if (depth == kDeepest) text_.too_long(in_.spot(), "parentheses nested deeper", kDeepest);
    Expression all{.kind = Expression::Kind::kElse, .number = 0, .size = 0, .path = {}, .of = {}, .spot = in_.spot()};
    do all.of.push_back(sum(depth));
    while (in_.take('|'));
    return all.of.size() == 1 ? std::move(all.of[0]) : all;
  }

 private:
  Expression sum(uint32_t depth) {
    return chain('+', Expression::Kind::kAdd, '-', Expression::Kind::kSubtract, [&] { return product(depth); });
  }
  Expression product(uint32_t depth) {
    return chain('*', Expression::Kind::kMultiply, '/', Expression::Kind::kDivide, [&] { return factor(depth); });
  }
  // a + b - c is one level for each kind of sign in turn, so that a long line makes no deep tree.
  template <class Operand>
  Expression chain(char one, Expression::Kind of_one, char two, Expression::Kind of_two, const Operand& operand) {
    Expression left = operand();
    uint32_t levels = 0;
    while (in_.next() == one || in_.next() == two) {
      const Expression::Kind kind = in_.next() == one ? of_one : of_two;
      const Spot spot = in_.spot();
      in_.take(in_.next());
      if (left.kind != kind || levels == 0) {
        if (++levels > kDeepest) text_.too_long(spot, "a longer expression", kDeepest);
        left = {.kind = kind, .number = 0, .size = 0, .path = {}, .of = {std::move(left)}, .spot = spot};
      }
      left.of.push_back(operand());
    }
    return left;
  }
  Expression factor(uint32_t depth) {
    Expression e{.kind = Expression::Kind::kNumber, .number = 0, .size = 0, .path = {}, .of = {}, .spot = in_.spot()};
    if (in_.take('(')) {
      e = alternatives(depth + 1);
      in_.need(')', " for '('");
    } else if (is_digit(in_.next())) {
      e.number = in_.number();
    } else {
      e.kind = Expression::Kind::kPath;
      e.path = in_.path("a number, a size or a key of config.json");
    }
    return e;
  }

  LineReader& in_;
  const MapText& text_;
};

// SIZE * 2 | key.of.config
Expression parse_expression(LineReader& in, MapText& text) { return ExpressionParser(in, text).alternatives(0); }

class SideParser {
 public:
  SideParser(LineReader& in, MapText& text) : in_(in), text_(text) {}

  std::vector<LineTensor> side() {
    std::vector<LineTensor> all;
    if (in_.take_word("none")) return all;
    do {
      if (all.size() == kMaxFactors) text_.too_long(in_.spot(), "more tensors", kMaxFactors);
      all.push_back(tensor());
    } while (in_.take(','));
    return all;
  }

 private:
  LineTensor tensor() {
    LineTensor t;
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

// TENSOR, TENSOR; none. A tensor is NAME[AXES].
std::vector<LineTensor> parse_side(LineReader& in, MapText& text) { return SideParser(in, text).side(); }

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

void check_line(const ModelMap& map, Line& line, bool in_block) {
  const auto bad = [&](Spot spot, std::string got, std::string expected) {
    fail_at(map, spot, ProblemId::map_syntax, std::move(got), std::move(expected));
  };
  if (line.sides[0].empty() && line.sides[1].empty()) bad(line.spot, "none on both sides", "a tensor on one");
  size_t rests = 0, names = 0, tensors = 0, with_axes = 0;
  for (const auto& side : line.sides) {
    for (const LineTensor& t : side) {
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
  const LineTensor &left = line.sides[0][0], &right = line.sides[1][0];
  line.moves_nothing = with_axes == 2 && tensors == 2 && alike(left.dims, right.dims) && left.indexes == right.indexes;
  if (!left.same_as.empty() && !right.same_as.empty()) bad(line.spot, "'same as' on both sides", "it on one");
}

void settle_sizes(ModelMap& map) {
  for (Size& size : map.sizes) resolve(map, size.value, size.word);
  order_sizes(map);
}

// release 0.3 | 0.1
void read_releases(ModelMap& map, LineReader& in, Spot spot) {
  if (!map.releases.empty()) fail_at(map, spot, ProblemId::map_syntax, "a second 'release'", "one");
  do {
    const std::string_view release = in.peek();
    if (!is_release(release) || (!map.releases.empty() && !is_before(release, map.releases.back())))
      in.fail_here("numbers of releases, the newest first");
    map.releases.emplace_back(release);
    in.skip(release.size());
    in.skip_space();
  } while (in.take('|'));
  in.need_end();
}

void check_releases(const ModelMap& map) {
  for (const Line& line : map.lines)
    for (const LineTensor& t : line.sides[0])
      if (t.names.size() > map.releases.size())
        fail_at(map, t.spot, ProblemId::map_syntax, counted(t.names.size(), "name"),
                "one of each release at most, " + std::to_string(map.releases.size()));
}

class Parser {
 public:
  Parser(std::string_view text, std::string name, const Limits& limits) : text_{.map = {}, .limits = limits} {
    map_.name = std::move(name);
    split(text);
  }

  ModelMap run() {
    for (uint32_t line = 1; line <= map_.text.size(); ++line) statement(line);
    if (!open_.empty())
      fail_at(map_, map_.blocks[open_.back()].spot, ProblemId::map_syntax, "the end of the map", "'end' of what begins here");
    if (!choice_.empty()) fail_at(map_, choice_spot_, ProblemId::map_syntax, "a choice of nothing", "'either' on the next line");
    if (!map_.releases.empty()) check_releases(map_);
    settle_sizes(map_);
    return std::move(map_);
  }

 private:
  void split(std::string_view text) {
    if (text.size() > limits_.map_bytes) text_.too_long({}, "a longer text", limits_.map_bytes);
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      const auto number = static_cast<uint32_t>(map_.text.size() + 1);
      if (line.size() > limits_.map_line_bytes) text_.too_long({number, 0}, "a longer line", limits_.map_line_bytes);
      if (number > limits_.map_lines) text_.too_long({number, 0}, "more lines", limits_.map_lines);
      map_.text.emplace_back(line);
      for (size_t at = 0; at < line.size();) {
        const CodePoint c = first_code_point(line.substr(at));
        if (c.size == 0 || (c.size == 1 && acts_on_terminal(c.value) && line[at] != '\t'))
          fail_at(map_, {number, static_cast<uint32_t>(at + 1)}, ProblemId::map_syntax, "a byte that is not UTF-8 text", "UTF-8");
        at += c.size;
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  void statement(uint32_t line) {
    LineReader in(map_, line);
    if (in.is_end()) return;
    const Spot spot = in.spot();
    const std::string_view word = in.peek();
    const char after = in.after_word();
    // A tensor may have any name, so that what has the form of a line is one.
    const bool is_line = after == '=' || (std::string_view("[,|").find(after) != std::string_view::npos && after != 0 && word != "note") ||
                         word.find_first_of("{.$") != std::string_view::npos;
    if (!is_line) {
      if (!choice_.empty() && word != "either") in.fail_here("'either' after 'choice'");
      if (in.take_word("family")) return families(in);
      if (in.take_word("class")) return classes(in, spot);
      if (in.take_word("keep")) return keeps(in);
      if (in.take_word("note")) return note(in);
      if (in.take_word("release")) return read_releases(map_, in, spot);
      if (in.take_word("state")) return state(in, spot);
      if (in.take_word("size")) return size(in, spot);
      if (in.take_word("name")) return variable(in, spot);
      if (in.take_word("choice")) return choice(in, spot);
      if (in.take_word("either")) return either(in, spot);
      if (in.take_word("or")) return branch(in, spot);
      if (in.take_word("optional")) return optional(in, spot);
      if (in.take_word("end")) return end(in, spot);
    }
    if (!choice_.empty()) in.fail_here("'either' after 'choice'");
    tensors(in, spot);
  }

  void families(LineReader& in) {
    do map_.families.push_back(in.path("a model_type of config.json"));
    while (!in.is_end());
  }
  // class LlamaForCausalLM MistralForCausalLM
  void classes(LineReader& in, Spot spot) {
    if (!map_.classes.empty()) fail_at(map_, spot, ProblemId::map_syntax, "a second 'class'", "one");
    do map_.classes.push_back(in.path("a class of models"));
    while (!in.is_end());
    if (map_.classes.size() != map_.families.size())
      fail_at(map_, spot, ProblemId::map_syntax, std::to_string(map_.classes.size()) + " classes",
              "as many as there are families before it, " + std::to_string(map_.families.size()));
  }
  // keep gate.weight norm for float16
  void keeps(LineReader& in) {
    const size_t first = map_.keeps.size();
    do map_.keeps.push_back({.piece = in.path("a piece of the names of tensors")});
    while (!in.is_end() && in.peek() != "for");
    if (in.take_word("for")) {
      if (!in.take_word("float16")) in.fail_here("float16");
      in.need_end();
      for (size_t k = first; k < map_.keeps.size(); ++k) map_.keeps[k].only_float16 = true;
    }
  }
  void note(LineReader& in) {
    if (in.is_end()) in.fail_here("a text");
    map_.notes.push_back(in.rest());
  }

  // state optimizer.state.{slot}.{name}
  void state(LineReader& in, Spot spot) {
    std::string text = in.rest();
    const bool ends_so = text.ends_with("state.{name}.{slot}") || text.ends_with("state.{slot}.{name}");
    if (!ends_so || std::ranges::count(text, '{') != 2 || text.find(' ') != text.npos)
      fail_at(map_, spot, ProblemId::map_syntax, text, "optimizer.state.{name}.{slot} or optimizer.state.{slot}.{name}, below any root");
    if (!map_.state.empty()) fail_at(map_, spot, ProblemId::map_syntax, "a second 'state'", "one");
    map_.state = std::move(text);
  }

  // size NAME = EXPRESSION
  void size(LineReader& in, Spot spot) {
    Size size{.word = text_.intern(in.word("the name of a size")), .value = {}, .is_local = false, .spot = spot};
    if (std::ranges::any_of(map_.sizes, [&](const Size& s) { return s.word == size.word; }))
      fail_at(map_, spot, ProblemId::map_syntax, "the size " + map_.word(size.word) + " twice", "one line for each size");
    map_.is_size[size.word] = true;
    in.need('=', " and what the size is");
    size.value = parse_expression(in, text_);
    in.need_end();
    map_.sizes.push_back(std::move(size));
  }

  // name $p = a | b
  void variable(LineReader& in, Spot spot) {
    if (in.next() != '$') in.fail_here("'$' and the name of a piece of names");
    in.skip(1);
    Variable v{.name = in.word("the name of a piece of names"), .values = {}, .spot = spot};
    if (std::ranges::any_of(map_.variables, [&](const Variable& o) { return o.name == v.name; }))
      fail_at(map_, spot, ProblemId::map_syntax, "$" + v.name + " twice", "one line for each");
    in.need('=', " and what the piece may be");
    do {
      const std::string_view value = in.peek();
      if (value.empty() || value.find_first_of("{}$") != std::string_view::npos) in.fail_here("a piece of names");
      v.values.emplace_back(value);
      in.skip(value.size());
      in.skip_space();
    } while (in.take('|'));
    in.need_end();
    map_.variables.push_back(std::move(v));
  }

  void choice(LineReader& in, Spot spot) {
    choice_ = in.word("the name of a choice");
    choice_spot_ = spot;
    in.need_end();
  }

  void open_block(Spot spot, size_t branches) {
    if (open_.size() == kDeepest) text_.too_long(spot, "blocks nested deeper", kDeepest);
    const auto at = static_cast<uint32_t>(map_.blocks.size());
    nodes().push_back({true, at});
    map_.blocks.push_back(
        {.branches = std::vector<Branch>(branches), .choice = std::exchange(choice_, {}), .indexes = {}, .required = {}, .spot = spot});
    open_.push_back(at);
    in_branch_.push_back(0);
    is_either_.push_back(branches == 1);
  }
  void either(LineReader& in, Spot spot) {
    open_block(spot, 1);
    heading(in, map_.blocks[open_.back()].branches[0], spot);
  }
  void branch(LineReader& in, Spot spot) {
    if (open_.empty() || !is_either_.back()) fail_at(map_, spot, ProblemId::map_syntax, "'or'", "'either' before it");
    Block& block = map_.blocks[open_.back()];
    if (block.branches.size() == kDeepest) text_.too_long(spot, "more branches", kDeepest);
    block.branches.emplace_back();
    ++in_branch_.back();
    heading(in, block.branches.back(), spot);
  }
  void heading(LineReader& in, Branch& branch, Spot spot) {
    branch.spot = spot;
    if (!in.is_end() && in.peek() != "when" && in.peek() != "unless") branch.name = in.word("the name of a branch, 'when' or 'unless'");
    conditions(in, branch.conditions);
    in.need_end();
  }
  void optional(LineReader& in, Spot spot) {
    open_block(spot, 2);
    in.need_end();
  }
  void end(LineReader& in, Spot spot) {
    if (open_.empty()) fail_at(map_, spot, ProblemId::map_syntax, "'end'", "'either' or 'optional' before it");
    in.need_end();
    if (is_either_.back() && map_.blocks[open_.back()].branches.size() == 1)
      fail_at(map_, map_.blocks[open_.back()].spot, ProblemId::map_syntax, "one branch", "'or' and another, or 'optional'");
    close();
  }
  void close() {
    open_.pop_back();
    in_branch_.pop_back();
    is_either_.pop_back();
  }

  void conditions(LineReader& in, std::vector<Condition>& all) {
    while (in.peek() == "when" || in.peek() == "unless") {
      Condition c{.unless = in.peek() == "unless", .paths = {}, .spot = in.spot()};
      in.take_word(in.peek());
      do c.paths.push_back(in.path("a key of config.json"));
      while (in.take('|'));
      all.push_back(std::move(c));
    }
  }

  std::vector<Node>& nodes() { return open_.empty() ? map_.nodes : map_.blocks[open_.back()].branches[in_branch_.back()].nodes; }

  // TENSORS = TENSORS [optional] [when ...] [required when ...]
  void tensors(LineReader& in, Spot spot) {
    Line line;
    line.spot = spot;
    line.sides[0] = parse_side(in, text_);
    in.need('=', " between the two sides");
    line.sides[1] = parse_side(in, text_);
    bool is_optional = false;
    std::vector<Condition> required;
    while (!in.is_end()) {
      if (in.take_word("optional")) {
        is_optional = true;
      } else if (in.take_word("required")) {
        conditions(in, required);
        if (required.empty()) in.fail_here("'when' or 'unless' after 'required'");
      } else if (in.peek() == "when" || in.peek() == "unless") {
        conditions(in, line.conditions);
      } else {
        in.fail_here("',', 'optional', 'required', 'when', 'unless', 'same as' or the end of the line");
      }
    }
    check_line(map_, line, !open_.empty());
    is_optional = is_optional || !required.empty();
    if (is_optional) open_block(spot, 2);
    for (size_t i = 0; i < open_.size(); ++i) line.within.push_back({open_[i], in_branch_[i]});
    nodes().push_back({false, static_cast<uint32_t>(map_.lines.size())});
    map_.lines.push_back(std::move(line));
    if (!is_optional) return;
    map_.blocks[open_.back()].required = std::move(required);
    close();
  }

  MapText text_;
  ModelMap& map_ = text_.map;
  const Limits& limits_ = text_.limits;
  std::string choice_;
  Spot choice_spot_;
  std::vector<uint32_t> open_, in_branch_;  // blocks that are open, the outermost first
  std::vector<bool> is_either_;
};

}  // namespace

ModelMap parse(std::string_view text, std::string name, const Limits& limits) { return Parser(text, std::move(name), limits).run(); }

}  // namespace dcp::maps
