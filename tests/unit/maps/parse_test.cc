// The language: what is read, and where what cannot be read is pointed at.
#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "maps/model_map.h"

using namespace dcp;
using namespace dcp::maps;
using namespace dcp::test;

namespace {

ModelMap map_of(std::string_view text) { return read_map(text, "a.map", {}); }
std::string said(std::string_view text) {
  return error_line([&] { map_of(text); });
}
Problem problem_of(std::string_view text) {
  try {
    map_of(text);
  } catch (const Error& e) {
    return e.problem();
  }
  return make_problem(ProblemId::internal, {}, "no error");
}
// "id line:column"
std::string where(std::string_view text) {
  const Problem p = problem_of(text);
  if (p.id == ProblemId::internal) return "fine";
  return std::string(id_name(p.id)) + " " + std::to_string(p.place.line) + ":" + std::to_string(p.place.column);
}

}  // namespace

TEST_CASE("a map's lines are names, axes, conditions and where they stand") {
  const ModelMap m = map_of(R"(# a comment
family llama mistral
class  LlamaForCausalLM MistralForCausalLM
note   two C#s are told  # as one
size l = num_layers
size k = head_dim | hidden_size / heads - 1 * 2
size v = k
name $p = model.language_model | model

emb.weight = $p.embed.weight   # another
a.{l}.w | a.{l}.old [(h d 2) i] = $p.{l}.w [(h 2 d) i]
fused [l (n (q + k + v)) i] = q.{l} [(n q) i], k.{l} [(n k) i], v.{l} [(n v) i] optional
none = x.{l} same as y.{l} when tie | true unless other
rest.{*} = {*}
)");
  CHECK(m.families == std::vector<std::string>{"llama", "mistral"});
  CHECK(class_of(m, "mistral") == "MistralForCausalLM");
  CHECK(class_of(m, "otter").empty());
  CHECK(m.notes == std::vector<std::string>{"two C#s are told"});
  CHECK(m.lines.size() == 5);
  CHECK(m.lines[0].outer.empty());
  CHECK(m.lines[1].outer == std::vector<Word>{m.word_ids.at("l")});
  CHECK(m.lines[2].outer.empty());
  CHECK(m.lines[2].pairs.size() == 3);
  CHECK(m.lines[2].within.size() == 1);
  CHECK(to_text(m, m.lines[2].sides[0][0].dims[1]) == "(n (q + k + v))");
  CHECK(to_text(m, m.lines[1].sides[0][0].names[1]) == "a.{l}.old");
  CHECK(to_text(m, m.lines[0].sides[1][0].names[0]) == "$p.embed.weight");
  CHECK(m.lines[3].conditions.size() == 2);
  CHECK(m.lines[3].conditions[0].paths == std::vector<std::string>{"tie", "true"});
  CHECK(!m.lines[3].conditions[0].unless);
  CHECK(m.lines[4].is_rest);
}

TEST_CASE("products bind closer than sums, and both nest") {
  const ModelMap m = map_of("x [(n (m a + m b + k))] = y [(n m (a + b))], z [(n k)]\n");
  CHECK(to_text(m, m.lines[0].sides[0][0].dims[0]) == "(n (m a + m b + k))");
  CHECK(m.lines[0].pairs.size() == 3);
}

TEST_CASE("tensors may have the names of keywords") {
  for (const char* line : {"note = size", "size | or = a", "end [a b] = end [b a]", "optional = either", "or.{x} = or.{x}",
                           "none.w = name.w", "family = x", "keep = x"})
    CHECK(map_of(line).lines.size() == 1);
}

TEST_CASE("an error quotes the line and points into it") {
  const Problem p = problem_of("a = b\n\nx [(h d i] = y [h d i]\n");
  CHECK(to_line(p) == "a.map:3:10: syntax error in the map (got ']', expected an axis, '(' or ')')");
  CHECK(p.quote == "x [(h d i] = y [h d i]");
  CHECK(p.place.line == 3);
  CHECK(p.place.column == 10);
}

TEST_CASE("what cannot be read is refused where it stands") {
  CHECK(where("a b = c") == "map_syntax 1:3");
  CHECK(where("class A\na = b") == "map_syntax 1:1");  // of which family
  CHECK(where("family a b\nclass A\na = b") == "map_syntax 2:1");
  CHECK(where("family a\nclass A\nclass A\na = b") == "map_syntax 3:1");
  CHECK(where("family a\nclass 1\na = b") == "map_syntax 2:7");
  CHECK(where("keep\na = b") == "map_syntax 1:5");
  CHECK(where("keep a for bfloat16\na = b") == "map_syntax 1:12");
  CHECK(where("keep a for float16 b\na = b") == "map_syntax 1:20");
  CHECK(where("a =") == "map_syntax 1:4");
  CHECK(where("= a") == "map_syntax 1:1");
  CHECK(where("a") == "map_syntax 1:2");
  CHECK(where("a = b c") == "map_syntax 1:7");
  CHECK(where("a = b, ") == "map_syntax 1:8");
  CHECK(where("none = none") == "map_syntax 1:1");
  CHECK(where("a, b = c") == "map_syntax 1:1");   // several tensors need axes
  CHECK(where("a [x] = c") == "map_syntax 1:1");  // all or none
  CHECK(where("a.{} = b") == "map_syntax 1:4");
  CHECK(where("a.{1} = b") == "map_syntax 1:4");
  CHECK(where("a.{x = b") == "map_syntax 1:6");
  CHECK(where("a.{x+} = b.{x}") == "map_syntax 1:6");
  CHECK(where("a.{x}.{x} = b.{x}") == "map_syntax 1:1");
  CHECK(where("a.{x}{y} = b.{x}.{y}") == "map_syntax 1:1");
  CHECK(where("a1{x} = b.{x}") == "map_syntax 1:1");  // a1{x} of 2 would be a12
  CHECK(where("a.{x}1 = b.{x}") == "map_syntax 1:1");
  CHECK(where("a.{*}.b = {*}") == "map_syntax 1:1");
  CHECK(where("a{*} = {*}") == "map_syntax 1:1");
  CHECK(where("a.{*} = b") == "map_syntax 1:1");
  CHECK(where("a.{x} | b = c.{x}") == "map_syntax 1:9");  // alternatives have the same indexes
  CHECK(where("$p.a = b") == "map_syntax 1:1");
  CHECK(where("name $p = a | \n") == "map_syntax 1:15");
  CHECK(where("name p = a") == "map_syntax 1:6");
  CHECK(where("name $p = a\nname $p = b") == "map_syntax 2:1");
  CHECK(where("name $p = a\nname $q = b\n$p.$q = c") == "map_syntax 3:1");
  CHECK(where("size x") == "map_syntax 1:7");
  CHECK(where("size x = ") == "map_syntax 1:10");
  CHECK(where("size x = (a") == "map_syntax 1:12");
  CHECK(where("size x = a +") == "map_syntax 1:13");
  CHECK(where("size x = 1\nsize x = 2") == "map_syntax 2:1");
  CHECK(where("size x = y\nsize y = x") == "map_syntax 2:1");  // made of itself
  CHECK(where("size x = 99999999999999999999") == "map_syntax 1:10");
  CHECK(where("a [0] = b [0]") == "map_syntax 1:4");
  CHECK(where("a [(x + )] = b [x]") == "map_syntax 1:9");
  CHECK(where("a [x + y] = b [x y]") == "map_syntax 1:6");  // a sum stands in parentheses
  CHECK(where("family") == "map_syntax 1:7");
  CHECK(where("note") == "map_syntax 1:5");
  CHECK(where("either\na = b\nend") == "map_syntax 1:1");
  CHECK(where("either\na = b\nor\nc = d") == "map_syntax 1:1");
  CHECK(where("or\na = b") == "map_syntax 1:1");
  CHECK(where("end") == "map_syntax 1:1");
  CHECK(where("optional\na = b\nor\nend") == "map_syntax 3:1");
  CHECK(where("a = b required") == "map_syntax 1:15");
  CHECK(where("choice layers\na = b") == "map_syntax 2:1");
  CHECK(where("choice layers") == "map_syntax 1:1");
  CHECK(where("a = b when") == "map_syntax 1:11");
  CHECK(where("a = b same c") == "map_syntax 1:12");
  CHECK(where("a = b.{x} same as c.{y}") == "map_syntax 1:19");
  CHECK(where("a same as x = b same as y") == "map_syntax 1:1");
  CHECK(where("a [(e + f)] = b.{e} [1], c [f] same as d") == "map_syntax 1:40");
  CHECK(where("a.{m+l}.w = b.{m}.w") == "map_syntax 1:1");  // l is neither a size nor an index
  CHECK(where("a = b\n\xff = c") == "map_syntax 2:1");
  CHECK(where("a = b\x1b") == "map_syntax 1:6");
}

TEST_CASE("what a map may hold has caps") {
  Limits small;
  small.map_bytes = 100;
  small.map_line_bytes = 50;
  small.map_lines = 3;
  const auto id = [&](const std::string& text) { return error_id([&] { read_map(text, "a.map", small); }); };
  CHECK(id(std::string(101, '#')) == "over_limit");
  CHECK(id(std::string(51, '#')) == "over_limit");
  CHECK(id("\n\n\n\n") == "over_limit");
  CHECK(id("a = b\n\n").empty());
  CHECK(where("x [" + std::string(100, '(')) == "over_limit 1:20");
  CHECK(where("size x = " + std::string(100, '(')) == "over_limit 1:26");
  std::string nested;
  for (int i = 0; i < 20; ++i) nested += "optional\n";
  CHECK(where(nested) == "over_limit 17:1");
  std::string sums;  // 2^11 parts
  for (int i = 0; i < 11; ++i) sums += "(a" + std::to_string(i) + " + b" + std::to_string(i) + ") ";
  CHECK(where("x [" + sums + "] = y [" + sums + "]") == "map_too_many 1:104");
}

TEST_CASE("both sides of a line hold the same parts") {
  CHECK(said("x [(h d 2) i] = y [(h 2 d)]")
            .starts_with("a.map:1:1: the two sides of the line do not hold the same elements (got a part with"));
  CHECK(where("x [a] = y [b]") == "map_axes_differ 1:1");
  CHECK(where("x [a b] = y.{a} [b]") == "fine");
  CHECK(where("x.{e} [a] = y [a]") == "map_axes_differ 1:1");
  CHECK(where("x.{e} = y") == "map_axes_differ 1:1");
  CHECK(where("x [(g + u) d] = y [g d]") == "map_axes_differ 1:1");
  CHECK(where("x [(g + u) d] = y [g d], z [u d]") == "fine");
  CHECK(where("x [(v + pad) d] = y [v d]") == "fine");
  CHECK(where("x [v d] = y [(v + pad_rows) d]") == "fine");
  CHECK(where("x [(v + rows) d] = y [v d]") == "map_axes_differ 1:1");
  CHECK(problem_of("x [a a] = y [a a]").id == ProblemId::map_axis_twice);
  CHECK(where("x.{a} [a] = y.{a} [a]") == "map_axis_twice 1:1");
  CHECK(where("x [(2 a 2)] = y [(2 a 2)]") == "map_axis_twice 1:1");
  CHECK(where("x [1 a 1] = y [(1 a)]") == "fine");
  CHECK(problem_of("x [(a + a)] = y [a], z [a]").id == ProblemId::map_parts_alike);
  CHECK(where("x [(a + b)] = y [a], z [a]") == "map_parts_alike 1:22");
}

TEST_CASE("no two lines have a name in common") {
  CHECK(said("a.{x}.w = b.{x}.w\na.{y}.w = c.{y}.w") ==
        "a.map:2:1: two lines could match the same key: a.{y}.w on the left, and a.{x}.w in line 1");
  CHECK(where("a.{x}.w = b.{x}.w\na.3.w = c") == "map_lines_overlap 2:1");
  CHECK(where("a.{x}.w = b.{x}.w\na.03.w = c") == "fine");  // no index is written so
  CHECK(where("b.{x} = a.{x}\nc.{x} = a.{x}") == "map_lines_overlap 2:9");
  CHECK(where("a = b\na = c") == "map_lines_overlap 2:1");
  CHECK(where("a | a = b") == "map_lines_overlap 1:5");
  CHECK(where("a = b when x\na = c unless x") == "fine");
  CHECK(where("a = b when x\na = c unless y") == "map_lines_overlap 2:1");
  CHECK(where("a = b when x\na = c") == "map_lines_overlap 2:1");
  CHECK(where("either\na = b\nor\na = c\nend") == "fine");
  CHECK(where("either\na = b\na = c\nor\nd = e\nend") == "map_lines_overlap 3:1");
  CHECK(where("optional\na = b\nend\na = c") == "map_lines_overlap 4:1");
  CHECK(where("size l = n\na.{l}.w = b.{l}.w\nc.{m}.w = b.{m+l}.w") == "fine");
  CHECK(where("size l = n\na.{l}.w = b.{l}.w\nc.{m}.w = b.{m+l}.w\nd.{k}.w = b.{k+l}.w") == "map_lines_overlap 4:11");
  CHECK(where("size l = n\nsize m = k\na.{l} = b.{l}.w\nc.{m} = b.{m+l}.w\nd.{k} = b.{k+l+m}.w") == "fine");
  CHECK(where("a.{x} = b.{x}\nc = b.{y+1}.z\nd = b.0.z") == "map_axes_differ 2:1");
  CHECK(where("c.{y} = b.{y+1}\nd = b.0") == "fine");
  CHECK(where("c.{y} = b.{y+1}\nd = b.1") == "map_lines_overlap 2:5");
  CHECK(where("name $p = x | y\n$p.a = a\nx.a = b") == "map_lines_overlap 3:1");
  CHECK(where("name $p = x | y\n$p.a = a\nz.a = b") == "fine");
  CHECK(where("{*} = {*}\na = b") == "fine");
  CHECK(where("{*} = {*}\na.{*} = b.{*}") == "map_lines_overlap 2:1");
  CHECK(where("a.{*} = b.{*}\nb.{*} = a.{*}") == "fine");
}
