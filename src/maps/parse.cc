#include "maps/parse.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "maps/line_reader.h"
#include "maps/whole.h"

namespace dcp::maps {
namespace {

constexpr uint32_t kDeepest = 16;     // parentheses in parentheses, blocks in blocks
constexpr size_t kMaxFactors = 1024;  // axes, summands or tensors beside one another

class Parser {
 public:
  Parser(std::string_view text, std::string name, const Limits& limits) : limits_(limits) {
    map_.name = std::move(name);
    split(text);
  }

  ModelMap run() {
    for (uint32_t line = 1; line <= map_.text.size(); ++line) statement(line);
    if (!open_.empty())
      fail_at(map_, map_.blocks[open_.back()].spot, ProblemId::map_syntax, "the end of the map", "'end' of what begins here");
    if (!choice_.empty()) fail_at(map_, choice_spot_, ProblemId::map_syntax, "a choice of nothing", "'either' on the next line");
    settle_sizes(map_);
    return std::move(map_);
  }

 private:
  void too_long(Spot spot, const char* what, uint64_t max) {
    fail_at(map_, spot, ProblemId::over_limit, what, "at most " + std::to_string(max));
  }

  void split(std::string_view text) {
    if (text.size() > limits_.map_bytes) too_long({}, "a longer text", limits_.map_bytes);
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      const auto number = static_cast<uint32_t>(map_.text.size() + 1);
      if (line.size() > limits_.map_line_bytes) too_long({number, 0}, "a longer line", limits_.map_line_bytes);
      if (number > limits_.map_lines) too_long({number, 0}, "more lines", limits_.map_lines);
      map_.text.emplace_back(line);
      for (size_t at = 0; at < line.size();) {
        const CodePoint c = first_code_point(line.substr(at));
        if (c.size == 0 || (c.size == 1 && acts_on_terminal(c.value) && line[at] != '\t'))
          fail_at(map_, {number, static_cast<uint32_t>(at + 1)}, ProblemId::map_syntax, "a byte that is no text", "UTF-8");
        at += c.size;
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  Word intern(const std::string& text) {
    const auto [it, is_new] = map_.word_ids.try_emplace(text, static_cast<Word>(map_.words.size()));
    if (is_new) {
      map_.words.push_back(text);
      for (std::vector<bool>* flags : {&map_.is_index, &map_.is_size, &map_.is_axis}) flags->push_back(false);
    }
    return it->second;
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
      if (in.take_word("note")) return note(in);
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
  void note(LineReader& in) {
    if (in.is_end()) in.fail_here("a text");
    map_.notes.push_back(in.rest());
  }

  // size NAME = EXPRESSION
  void size(LineReader& in, Spot spot) {
    Size size{.word = intern(in.word("the name of a size")), .value = {}, .is_local = false, .spot = spot};
    if (std::ranges::any_of(map_.sizes, [&](const Size& s) { return s.word == size.word; }))
      fail_at(map_, spot, ProblemId::map_syntax, "the size " + map_.word(size.word) + " twice", "one line for each size");
    map_.is_size[size.word] = true;
    in.need('=', " and what the size is");
    size.value = alternatives(in, 0);
    in.need_end();
    map_.sizes.push_back(std::move(size));
  }

  Expression alternatives(LineReader& in, uint32_t depth) {
    if (depth == kDeepest) too_long(in.spot(), "parentheses nested deeper", kDeepest);
    Expression all{.kind = Expression::Kind::kElse, .number = 0, .size = 0, .path = {}, .of = {}, .spot = in.spot()};
    do all.of.push_back(sum(in, depth));
    while (in.take('|'));
    return all.of.size() == 1 ? std::move(all.of[0]) : all;
  }
  Expression sum(LineReader& in, uint32_t depth) {
    return chain(in, '+', Expression::Kind::kAdd, '-', Expression::Kind::kSubtract, [&] { return product(in, depth); });
  }
  Expression product(LineReader& in, uint32_t depth) {
    return chain(in, '*', Expression::Kind::kMultiply, '/', Expression::Kind::kDivide, [&] { return factor(in, depth); });
  }
  // a + b - c is one level for each kind of sign in turn, so that a long line makes no deep tree.
  template <class Operand>
  Expression chain(LineReader& in, char one, Expression::Kind of_one, char two, Expression::Kind of_two, const Operand& operand) {
    Expression left = operand();
    uint32_t levels = 0;
    while (in.next() == one || in.next() == two) {
      const Expression::Kind kind = in.next() == one ? of_one : of_two;
      const Spot spot = in.spot();
      in.take(in.next());
      if (left.kind != kind || levels == 0) {
        if (++levels > kDeepest) too_long(spot, "a longer expression", kDeepest);
        left = {.kind = kind, .number = 0, .size = 0, .path = {}, .of = {std::move(left)}, .spot = spot};
      }
      left.of.push_back(operand());
    }
    return left;
  }
  Expression factor(LineReader& in, uint32_t depth) {
    Expression e{.kind = Expression::Kind::kNumber, .number = 0, .size = 0, .path = {}, .of = {}, .spot = in.spot()};
    if (in.take('(')) {
      e = alternatives(in, depth + 1);
      in.need(')', " of what is open");
    } else if (is_digit(in.next())) {
      e.number = in.number();
    } else {
      e.kind = Expression::Kind::kPath;
      e.path = in.path("a number, a size or a key of config.json");
    }
    return e;
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
    if (std::ranges::any_of(map_.blocks, [&](const Block& b) { return b.choice == choice_; }))
      fail_at(map_, spot, ProblemId::map_syntax, "the choice " + choice_ + " twice", "one line for each");
  }

  void open_block(Spot spot, size_t branches) {
    if (open_.size() == kDeepest) too_long(spot, "blocks nested deeper", kDeepest);
    const auto at = static_cast<uint32_t>(map_.blocks.size());
    nodes().push_back({true, at});
    map_.blocks.push_back({.branches = std::vector<Branch>(branches), .choice = std::exchange(choice_, {}), .indexes = {}, .spot = spot});
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
    if (block.branches.size() == kDeepest) too_long(spot, "more branches", kDeepest);
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

  // TENSORS = TENSORS [optional] [when ...]
  void tensors(LineReader& in, Spot spot) {
    Line line;
    line.spot = spot;
    line.sides[0] = side(in);
    in.need('=', " between the two sides");
    line.sides[1] = side(in);
    bool is_optional = false;
    while (!in.is_end()) {
      if (in.take_word("optional")) {
        is_optional = true;
      } else if (in.peek() == "when" || in.peek() == "unless") {
        conditions(in, line.conditions);
      } else {
        in.fail_here("',', 'optional', 'when', 'unless', 'same as' or the end of the line");
      }
    }
    check_line(map_, line, !open_.empty());
    if (is_optional) open_block(spot, 2);
    for (size_t i = 0; i < open_.size(); ++i) line.within.push_back({open_[i], in_branch_[i]});
    nodes().push_back({false, static_cast<uint32_t>(map_.lines.size())});
    map_.lines.push_back(std::move(line));
    if (is_optional) close();
  }

  std::vector<Tensor> side(LineReader& in) {
    std::vector<Tensor> all;
    if (in.take_word("none")) return all;
    do {
      if (all.size() == kMaxFactors) too_long(in.spot(), "more tensors", kMaxFactors);
      all.push_back(tensor(in));
    } while (in.take(','));
    return all;
  }

  Tensor tensor(LineReader& in) {
    Tensor t;
    t.spot = in.spot();
    do t.names.push_back(name(in));
    while (in.take('|'));
    t.indexes = indexes_of(t.names[0]);
    for (const Name& n : t.names) {
      auto one = indexes_of(n), first = t.indexes;
      std::ranges::sort(one);
      std::ranges::sort(first);
      if (one != first)
        fail_at(map_, n.spot, ProblemId::map_syntax, to_text(map_, n), "the same indexes as in " + to_text(map_, t.names[0]));
    }
    if (in.take('[')) {
      t.has_axes = true;
      while (!in.take(']')) {
        if (t.dims.size() == limits_.tensor_rank) too_long(in.spot(), "more dims", limits_.tensor_rank);
        t.dims.push_back(atom(in, 0));
      }
    }
    if (in.take_word("same")) {
      if (!in.take_word("as")) in.fail_here("'as'");
      t.same_as.push_back(name(in));
      for (const Word w : indexes_of(t.same_as[0]))
        if (std::ranges::find(t.indexes, w) == t.indexes.end())
          fail_at(map_, t.same_as[0].spot, ProblemId::map_syntax, to_text(map_, t.same_as[0]), "indexes of " + to_text(map_, t.names[0]));
    }
    return t;
  }

  std::vector<Word> indexes_of(const Name& name) const {
    std::vector<Word> all;
    for (const NamePart& p : name.parts) {
      if (p.kind != NamePart::Kind::kIndex) continue;
      if (std::ranges::find(all, p.index) != all.end())
        fail_at(map_, name.spot, ProblemId::map_syntax, "the index " + map_.word(p.index) + " twice", "each once in a name");
      all.push_back(p.index);
    }
    return all;
  }

  Name name(LineReader& in) {
    Name name;
    name.spot = in.spot();
    for (;;) {
      NamePart part;
      if (in.next() == '{') {
        part = braces(in);
      } else if (in.next() == '$') {
        part = use(in);
      } else {
        part.text = in.piece();
        if (part.text.empty()) break;
      }
      name.parts.push_back(std::move(part));
    }
    if (name.parts.empty()) in.fail_here("the name of a tensor");
    in.skip_space();
    return name;
  }

  NamePart use(LineReader& in) {
    const Spot spot = in.spot();
    in.skip(1);
    std::string_view word = in.peek();
    word = word.substr(0, static_cast<size_t>(std::ranges::find_if_not(word, is_word) - word.begin()));
    for (uint32_t v = 0; v < map_.variables.size(); ++v) {
      if (map_.variables[v].name != word) continue;
      in.skip(word.size());
      NamePart part;
      part.kind = NamePart::Kind::kVariable;
      part.variable = v;
      return part;
    }
    fail_at(map_, spot, ProblemId::map_syntax, "$" + std::string(word),
            "a piece that 'name $" + std::string(word) + " = ...' before it says");
  }

  // {x}, {m+l}, {m+l+1}, {*}: the brace is next.
  NamePart braces(LineReader& in) {
    NamePart part;
    in.take('{');
    if (in.take('*')) {
      part.kind = NamePart::Kind::kRest;
    } else {
      part.kind = NamePart::Kind::kIndex;
      part.index = intern(in.word("an index or '*'"));
      map_.is_index[part.index] = true;
      while (in.take('+')) {
        if (part.after.size() == kDeepest) too_long(in.spot(), "more sizes to count on from", kDeepest);
        if (is_digit(in.next())) {
          part.plus += std::min<uint64_t>(in.number(), uint64_t{1} << 40);
        } else {
          part.after.push_back(intern(in.word("a size or a number")));
        }
      }
    }
    if (in.next() != '}') in.fail_here("'}'");
    in.skip(1);  // and no spaces: the name goes on
    return part;
  }

  // An axis, a number, or what stands in parentheses.
  Axis atom(LineReader& in, uint32_t depth) {
    if (depth == kDeepest) too_long(in.spot(), "parentheses nested deeper", kDeepest);
    const Spot spot = in.spot();
    Axis axis;
    axis.spot = spot;
    if (in.take('(')) {
      axis = summands(in, depth + 1);
      axis.spot = spot;
      in.need(')', " of what is open");
    } else if (is_digit(in.next())) {
      const uint64_t number = in.number();
      if (number == 0) fail_at(map_, axis.spot, ProblemId::map_syntax, "0", "an axis of at least one");
      if (number > 1) axis.kind = Axis::Kind::kAxis, axis.word = intern(std::to_string(number));
    } else {
      axis.kind = Axis::Kind::kAxis;
      axis.word = intern(in.word("an axis, '(' or ']'"));
    }
    if (axis.kind == Axis::Kind::kAxis) map_.is_axis[axis.word] = true;
    return axis;
  }
  Axis summands(LineReader& in, uint32_t depth) {
    Axis sum{.kind = Axis::Kind::kSum, .word = 0, .of = {}, .spot = in.spot()};
    do {
      if (sum.of.size() == kMaxFactors) too_long(in.spot(), "more summands", kMaxFactors);
      sum.of.push_back(factors(in, depth));
    } while (in.take('+'));
    return sum.of.size() == 1 ? std::move(sum.of[0]) : sum;
  }
  Axis factors(LineReader& in, uint32_t depth) {
    Axis product{.kind = Axis::Kind::kProduct, .word = 0, .of = {}, .spot = in.spot()};
    do {
      if (product.of.size() == kMaxFactors) too_long(in.spot(), "more factors", kMaxFactors);
      product.of.push_back(atom(in, depth));
    } while (in.next() != '+' && in.next() != ')' && !in.is_end());
    return product.of.size() == 1 ? std::move(product.of[0]) : product;
  }

  ModelMap map_;
  const Limits& limits_;
  std::string choice_;
  Spot choice_spot_;
  std::vector<uint32_t> open_, in_branch_;  // blocks that are open, the outermost first
  std::vector<bool> is_either_;
};

}  // namespace

ModelMap parse(std::string_view text, std::string name, const Limits& limits) { return Parser(text, std::move(name), limits).run(); }

}  // namespace dcp::maps
