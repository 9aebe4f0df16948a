#include "maps/parse.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "maps/line_reader.h"
#include "maps/parse_line.h"
#include "maps/whole.h"

namespace dcp::maps {
namespace {

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

  // TENSORS = TENSORS [optional] [when ...]
  void tensors(LineReader& in, Spot spot) {
    Line line;
    line.spot = spot;
    line.sides[0] = parse_side(in, text_);
    in.need('=', " between the two sides");
    line.sides[1] = parse_side(in, text_);
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
