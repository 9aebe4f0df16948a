// A map meets tensors: which it takes, what it makes of them, and what it says when that does not work out.
#include <catch2/catch_test_macros.hpp>

#include "maps/mapped.h"

using namespace dcp;
using namespace dcp::maps;
using namespace dcp::test;

namespace {

using Keys = std::vector<std::string>;

// There and back: everything is as it was, and is made of what it should be.
MadeTensors there_and_back(Trial trial, const MadeTensors& from) {
  const MadeTensors there = carried_out(trial.resolve(from), from);
  const Side side = trial.resolve(from).from;
  trial.options.from = other(side);
  const MadeTensors back = carried_out(trial.resolve(there), there);
  CHECK(keys_of(back) == keys_of(from));
  for (const auto& [key, t] : from) CHECK((!back.contains(key) || back.at(key) == t));
  return there;
}

std::string said(const Trial& trial, const MadeTensors& from) {
  return error_line([&] { carried_out(trial.resolve(from), from); });
}
std::string id(const Trial& trial, const MadeTensors& from) {
  return error_id([&] { carried_out(trial.resolve(from), from); });
}
std::vector<std::string> problems(const Trial& trial, const MadeTensors& from) {
  std::vector<std::string> all;
  for (const Problem& p : trial.resolve(from).problems) all.push_back(std::string(id_name(p.id)) + " " + p.place.tensor);
  return all;
}

}  // namespace

TEST_CASE("rotary pairs become halves, head by head") {
  const MadeTensors from = made({{"wq", {8, 3}}});
  const MadeTensors there = there_and_back({.map = "size h = heads\nwq [(h d 2) i] = q [(h 2 d) i]", .config = R"({"heads": 2})"}, from);
  // Rows of the first head are 0 to 3: its pairs (0, 1) and (2, 3) become the halves (0, 2) and (1, 3).
  const Shape rows{0, 2, 1, 3, 4, 6, 5, 7};
  for (size_t r = 0; r < 8; ++r)
    for (size_t c = 0; c < 3; ++c) CHECK(there.at("q").elements[r * 3 + c] == rows[r] * 3 + static_cast<int64_t>(c));
}

TEST_CASE("a tensor of all layers and groups becomes queries, keys and values of each layer") {
  const MadeTensors from = made({{"qkv", {2, 12, 5}}});  // 2 layers, 3 groups of (2 + 1 + 1)
  const Trial trial{.map = "size l = layers\nsize n = groups\nsize k = head\nsize v = k\n"
                           "qkv [l (n (q + k + v)) i] = q.{l} [(n q) i], k.{l} [(n k) i], v.{l} [(n v) i]",
                    .config = R"({"layers": 2, "groups": 3, "head": 1})"};
  const MadeTensors there = there_and_back(trial, from);
  CHECK(keys_of(there) == Keys{"k.0", "k.1", "q.0", "q.1", "v.0", "v.1"});
  CHECK(there.at("q.1").shape == Shape{6, 5});
  CHECK(there.at("q.1").elements[0] == 60);
  CHECK(there.at("q.1").elements[2 * 5] == 60 + 4 * 5);  // the second group begins four rows on
  CHECK(there.at("k.0").elements[5] == 6 * 5);
  CHECK(there.at("v.1").elements[2 * 5 + 4] == 60 + 11 * 5 + 4);
}

TEST_CASE("experts are stacked, fused and taken apart") {
  const MadeTensors from = made({{"0.gate_up", {3, 8, 2}}, {"0.down", {3, 2, 4}}, {"1.gate_up", {3, 8, 2}}, {"1.down", {3, 2, 4}}});
  const Trial trial{
      .map = "size u = g\n{l}.gate_up [e (g + u) d] = m.{l}.{e}.gate [g d], m.{l}.{e}.up [u d]\n{l}.down [e d f] = m.{l}.{e}.down [f d]"};
  const MadeTensors there = there_and_back(trial, from);
  CHECK(there.size() == 18);
  CHECK(there.at("m.1.2.up").shape == Shape{4, 2});
  CHECK(there.at("m.1.2.up").elements[0] == from.at("1.gate_up").elements[2 * 16 + 8]);
  CHECK(there.at("m.0.1.down").elements[1] == from.at("0.down").elements[8 + 4]);  // transposed
}

TEST_CASE("sums in products, a number, and a dim of 1") {
  there_and_back(
      {.map = "size n = 2\nsize m = 3\nsize a = 1\nsize b = 2\nsize k = 2\nx [(n (m a + m b + k)) 1] = y [(n m (a + b))], z [n k]"},
      made({{"x", {22, 1}}}));
  there_and_back({.map = "a [(f 2) d] = b [(2 f) d]"}, made({{"a", {10, 3}}}));
  there_and_back({.map = "a [(f 2) d] = b [d f 2]"}, made({{"a", {0, 3}}}));
  there_and_back({.map = "a = b"}, made({{"a", {}}}));
  there_and_back({.map = "a [] = b [1]"}, made({{"a", {}}}));
}

TEST_CASE("padding is dropped, and made of zeros where its size is given") {
  Trial trial{.map = "size vocab = vocab_size\nemb [(vocab + pad) i] = tok [vocab i]", .config = R"({"vocab_size": 5})"};
  const MadeTensors from = made({{"emb", {8, 2}}});
  const MadeTensors there = carried_out(trial.resolve(from), from);
  CHECK(there.at("tok").elements == Shape{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(said(trial, there) == "a.map:2:6: neither the configuration nor the shapes determine this size: pad");
  trial.sets = {"pad=3"};
  CHECK(carried_out(trial.resolve(there), there).at("emb").elements == Shape{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -1, -1, -1, -1, -1});
  CHECK(carried_out(trial.resolve(from), from).at("tok").shape == Shape{5, 2});
  trial.sets = {"pad=2"};
  CHECK(id(trial, from) == "map_size_differs");
  trial.sets = {"pad=0"};
  CHECK(carried_out(trial.resolve(there), there).at("emb").shape == Shape{5, 2});
}

TEST_CASE("indexes are whole, and count on") {
  const Trial trial{.map = "size l = layers\nlayers.{l}.w = m.{l}.w\nmtp.{x}.w = m.{x+l}.w optional", .config = R"({"layers": 2})"};
  const MadeTensors from = made({{"layers.0.w", {1}}, {"layers.1.w", {1}}, {"mtp.0.w", {1}}, {"mtp.1.w", {1}}});
  CHECK(keys_of(there_and_back(trial, from)) == Keys{"m.0.w", "m.1.w", "m.2.w", "m.3.w"});
  CHECK(problems(trial, made({{"layers.0.w", {1}}})) == Keys{"map_tensor_missing layers.1.w"});
  CHECK(said(trial, made({{"layers.0.w", {1}}, {"layers.1.w", {1}}, {"layers.2.w", {1}}})) ==
        "a.map:2:1: tensor 'layers.2.w': more of these than the map's sizes say (got 2, expected below l = 2 (layers of config.json))");
  CHECK(said(trial, made({{"m.0.w", {1}}, {"m.1.w", {1}}, {"m.3.w", {1}}})) ==
        "a.map:3:13: tensor 'm.3.w': the index numbers of a name have a gap (got no 0 for {x}, expected 0 to 1)");
  const Trial open{.map = "a.{x}.w = b.{x}.w\na.{x}.n = b.{x}.n"};
  CHECK(id(open, made({{"a.0.w", {1}}, {"a.2.w", {1}}})) == "map_index_gap");
  CHECK(id(open, made({{"a.0.w", {1}}, {"a.1000000000000.w", {1}}})) == "map_index_gap");
  CHECK(problems(open, made({{"a.0.w", {1}}, {"a.1.n", {1}}})) == Keys{"map_tensor_missing a.1.w", "map_tensor_missing a.0.n"});
  CHECK(problems(open, made({{"a.0.w", {1}}, {"a.0.n", {1}}, {"a.00.w", {1}}})) == Keys{"map_key_unmapped a.00.w"});
  const Trial many{.map = open.map + "\nsize x = n", .config = R"({"n": 1000000000000})"};
  CHECK(id(many, made({{"a.0.w", {1}}})) == "map_too_many");
  const Trial unknown{.map = "size l = layers\nlayers.{l}.w = m.{l}.w\nmtp.{x}.w = m.{x+l}.w optional"};
  CHECK(id(unknown, made({{"m.0.w", {1}}})) == "map_size_unknown");
  const Trial alone{.map = "size l = layers\nlayers.{l}.w = m.{l}.w optional\nmtp.{x}.w = m.{x+l}.w optional"};
  CHECK(id(alone, made({{"mtp.0.w", {1}}})) == "map_size_unknown");
}

TEST_CASE("more tensors than there is room for are refused") {
  CHECK(id({.map = "x [a b] = y.{a} [b]"}, {{"x", {{int64_t{1} << 40, 0}, {}}}}) == "map_too_many");
  CHECK(id({.map = "x [a b] = y [(a b)]"}, {{"x", {{int64_t{1} << 40, 0, 1}, {}}}}) == "map_size_differs");
}

TEST_CASE("either one branch for each value, or none of what is optional") {
  const Trial trial{.map = "either\n{l}.gate = m.{l}.gate\n{l}.w [e f] = m.{l}.e.{e} [f]\nor\n{l}.w1 = m.{l}.dense\nend\n"
                           "optional\n{l}.a = m.{l}.a\n{l}.b = m.{l}.b\nend"};
  CHECK(there_and_back(trial, made({{"0.w1", {2}}, {"1.gate", {3}}, {"1.w", {3, 2}}, {"1.a", {1}}, {"1.b", {1}}})).size() == 7);
  CHECK(problems(trial, made({{"0.w1", {2}}, {"1.gate", {3}}})) == Keys{"map_tensor_missing 1.w"});
  CHECK(problems(trial, made({{"0.w1", {2}}, {"0.gate", {3}}})) == Keys{"map_key_unmapped 0.gate"});
  CHECK(problems(trial, made({{"0.w1", {2}}, {"0.a", {3}}})) == Keys{"map_tensor_missing 0.b"});
  CHECK(problems(trial, made({{"1.w1", {2}}, {"0.a", {3}}, {"0.b", {3}}})) == Keys{"map_tensor_missing 0.gate", "map_tensor_missing 0.w"});
}

TEST_CASE("what config.json requires must be there, and what it does not is in all layers or in none") {
  const std::string line = "size l = layers\n{l}.w = m.{l}.w\n{l}.b = m.{l}.b required when bias | true";
  const MadeTensors none = made({{"0.w", {1}}, {"1.w", {1}}}), one = made({{"0.w", {1}}, {"0.b", {1}}, {"1.w", {1}}});
  const MadeTensors all = made({{"0.w", {1}}, {"0.b", {1}}, {"1.w", {1}}, {"1.b", {1}}});
  for (const char* config : {R"({"layers": 2, "bias": true})", R"({"layers": 2})"}) {
    CHECK(problems({line, config}, none) == Keys{"map_tensor_missing 0.b", "map_tensor_missing 1.b"});
    CHECK(problems({line, config}, one) == Keys{"map_tensor_missing 1.b"});
    CHECK(there_and_back({line, config}, all).size() == 4);
  }
  const Trial open{line, R"({"layers": 2, "bias": false})"};
  CHECK(there_and_back(open, none).size() == 2);
  CHECK(problems(open, one) == Keys{"map_tensor_missing 1.b"});
  CHECK(there_and_back(open, all).size() == 4);
  const std::string within = "size l = layers\neither\n{l}.w = m.{l}.w\n{l}.b = m.{l}.b required unless plain\nor\n{l}.v = m.{l}.v\nend";
  CHECK(problems({within, R"({"layers": 2})"}, made({{"0.w", {1}}, {"1.v", {1}}})) == Keys{"map_tensor_missing 0.b"});
  CHECK(there_and_back({within, R"({"layers": 2, "plain": true})"}, made({{"0.w", {1}}, {"1.v", {1}}})).size() == 2);
}

TEST_CASE("of branches that could all be made, the one that is asked for") {
  Trial trial{.map = "size l = n\nchoice layers\neither stacked when no\nw [l d] = m.{l} [d]\nor numbered\nw.{l} = m.{l}\nor third\nv.{l} "
                     "= m.{l}\nend",
              .config = R"({"n": 2})"};
  const MadeTensors published = made({{"m.0", {3}}, {"m.1", {3}}});
  CHECK(keys_of(carried_out(trial.resolve(published), published)) == Keys{"w.0", "w.1"});
  trial.sets = {"no=true"};
  CHECK(keys_of(there_and_back(trial, published)) == Keys{"w"});
  trial.sets = {"layers=third"};
  CHECK(keys_of(there_and_back(trial, published)) == Keys{"v.0", "v.1"});
  trial.sets = {"layers=fourth"};
  CHECK(said(trial, published).starts_with("a.map:3:1: the map does not use this setting"));
}

TEST_CASE("a choice holds wherever it stands") {
  Trial trial{.map = "choice glu\neither fused\nx [(g + u)] = m.g [g], m.u [u]\nor apart\nx_w = m.g\nx_v = m.u\nend\n"
                     "choice glu\neither fused\ny [(g + u)] = n.g [g], n.u [u]\nor apart\ny_w = n.g\ny_v = n.u\nend"};
  const MadeTensors published = made({{"m.g", {3}}, {"m.u", {3}}, {"n.g", {2}}, {"n.u", {2}}});
  CHECK(keys_of(carried_out(trial.resolve(published), published)) == Keys{"x", "y"});
  trial.sets = {"glu=apart"};
  CHECK(keys_of(there_and_back(trial, published)) == Keys{"x_v", "x_w", "y_v", "y_w"});
}

TEST_CASE("names may be one of several, and {*} is the rest") {
  Trial trial{.map = "name $p = model.language_model | model\na | b = $p.x.0\n{*} = $p.{*}"};
  const MadeTensors from = made({{"b", {1}}, {"c.d", {2}}});
  CHECK(keys_of(carried_out(trial.resolve(from), from)) == Keys{"model.language_model.c.d", "model.language_model.x.0"});
  trial.sets = {"p=model"};
  const MadeTensors there = carried_out(trial.resolve(from), from);
  CHECK(keys_of(there) == Keys{"model.c.d", "model.x.0"});
  trial.options.from = Side::kRight;
  trial.sets = {};
  CHECK(keys_of(carried_out(trial.resolve(there), there)) == Keys{"a", "c.d"});
  trial.options.from = Side::kLeft;
  CHECK(problems(trial, made({{"a", {1}}, {"b", {1}}})) == Keys{"map_key_unmapped b"});
  trial.sets = {"p=other"};
  CHECK(id(trial, from) == "map_setting");
}

TEST_CASE("conditions ask the configuration") {
  const auto key = [](const std::string& condition, const std::string& config, std::vector<std::string> sets = {}) {
    const MadeTensors from = made({{"a", {1}}});
    const Trial trial{.map = "a = yes when " + condition + "\na = no unless " + condition, .config = config, .sets = std::move(sets)};
    return trial.resolve(from).targets[0].key;
  };
  CHECK(key("x", "{}") == "no");
  for (const char* no : {"null", "0", "false", "\"\"", "[]", "{}"}) CHECK(key("x", std::string("{\"x\": ") + no + "}") == "no");
  for (const char* yes : {"1", "true", "\"a\"", "[0]", "{\"a\": 0}", "0.5", "-1"})
    CHECK(key("x", std::string("{\"x\": ") + yes + "}") == "yes");
  CHECK(key("x.y", R"({"x": {"y": true}})") == "yes");
  CHECK(key("x | true", "{}") == "yes");
  CHECK(key("x | true", R"({"x": null})") == "yes");
  CHECK(key("x | true", R"({"x": false})") == "no");
  CHECK(key("x", R"({"x": false})", {"x=true"}) == "yes");
  CHECK(key("x", R"({"x": true})", {"x=false"}) == "no");
  CHECK(key("x", R"({"x": true})", {"x=null"}) == "no");
  CHECK(error_id([&] { key("x", "{}", {"y=1"}); }) == "map_setting");
}

TEST_CASE("what is tied is left out, made of the other, or compared") {
  Trial trial{.map = "emb = e\nhead = h same as e when tie\nhead = h unless tie", .config = R"({"tie": true})"};
  const auto both = made({{"emb", {2}}, {"head", {2}}});
  Mapping r = trial.resolve(both);
  CHECK(r.targets.size() == 1);
  REQUIRE(r.ties.size() == 1);
  CHECK(carried_out(r.ties[0].tensor, both).elements == Shape{2, 3});
  CHECK(carried_out(r.ties[0].same_as, both).elements == Shape{0, 1});
  CHECK(r.ties[0].difference.names == std::vector<std::string>{"tie=false"});
  CHECK(to_line(r.ties[0].difference) ==
        "a.map:2:1: tensor 'h': two tensors that are tied differ (got a value different from that in e, expected the same: they are tied)");
  CHECK(trial.resolve(made({{"emb", {2}}})).ties.empty());
  CHECK(trial.resolve(made({{"emb", {2}}})).problems.empty());

  const auto published = made({{"e", {2}}});
  CHECK(keys_of(carried_out(trial.resolve(published), published)) == Keys{"emb", "head"});
  CHECK(carried_out(trial.resolve(published), published).at("head").elements == Shape{0, 1});
  r = trial.resolve(made({{"e", {2}}, {"h", {2}}}));
  CHECK(r.targets.size() == 2);
  CHECK(r.ties.size() == 1);
  CHECK(problems(trial, made({{"e", {2}}, {"h", {3}}})) == Keys{"map_tied_differ h"});
  trial.config = "{}";
  CHECK(problems(trial, published) == Keys{"map_tensor_missing h"});
  CHECK(trial.resolve(published).problems[0].id == ProblemId::map_tensor_missing);
  CHECK(trial.resolve(published).problems[0].names == std::vector<std::string>{"tie=true"});

  // Each of several is a copy of its own.
  const Trial numbered{.map = "a [e f] = b.{e} [f]\nc [e f] = d.{e} [f] same as b.{e}"};
  r = numbered.resolve(made({{"a", {2, 3}}, {"c", {2, 3}}}));
  REQUIRE(r.ties.size() == 2);
  CHECK(r.ties[1].tensor.key == "d.1");
  CHECK(r.ties[1].same_as.key == "b.1");
  CHECK(numbered.resolve(made({{"b.0", {3}}, {"b.1", {3}}, {"d.0", {3}}, {"d.1", {3}}})).ties.size() == 2);

  const Trial compared{.map = "emb = e\nnone = h.{x} same as e"};
  r = compared.resolve(made({{"e", {2}}, {"h.0", {2}}, {"h.1", {2}}}));
  CHECK(r.ties.size() == 2);
  CHECK(r.left_out.size() == 2);
  CHECK(compared.resolve(made({{"emb", {2}}})).not_made.empty());
}

TEST_CASE("none is left out, and what is not made is told") {
  const Trial trial{.map = "a = b\nnone = c.{x} optional\nd = none\nnone = e"};
  Mapping r = trial.resolve(made({{"a", {1}}, {"d", {1}}}));
  CHECK(r.left_out == std::vector<uint32_t>{1});
  CHECK(r.not_made == Keys{"e"});
  r = trial.resolve(made({{"b", {1}}, {"c.0", {1}}, {"c.1", {1}}, {"e", {1}}}));
  CHECK(r.left_out.size() == 3);
  CHECK(r.not_made == Keys{"d"});
  CHECK(problems(trial, made({{"b", {1}}})) == Keys{"map_tensor_missing e"});
}

TEST_CASE("keys that no line takes are errors, kept or dropped") {
  Trial trial{.map = "a = b"};
  const auto from = made({{"a", {1}}, {"other", {2}}});
  CHECK(said(trial, from) == "a.map: tensor 'other': no line of the map matches this key");
  trial.options.unmapped = Unmapped::kDrop;
  CHECK(keys_of(carried_out(trial.resolve(from), from)) == Keys{"b"});
  CHECK(trial.resolve(from).left_out == std::vector<uint32_t>{1});
  trial.options.unmapped = Unmapped::kKeep;
  CHECK(keys_of(carried_out(trial.resolve(from), from)) == Keys{"b", "other"});
  CHECK(id(trial, made({{"a", {1}}, {"b", {2}}})) == "map_name_twice");
}

TEST_CASE("the side is the one whose names there are") {
  Trial trial{.map = "a.{x} = b.{x}\nsame = same"};
  CHECK(trial.resolve(made({{"a.0", {1}}, {"same", {1}}})).from == Side::kLeft);
  CHECK(trial.resolve(made({{"b.0", {1}}, {"same", {1}}})).from == Side::kRight);
  CHECK(trial.resolve(made({{"same", {1}}})).from == Side::kLeft);
  trial.options.are_published = true;
  CHECK(trial.resolve(made({{"same", {1}}})).from == Side::kRight);
  trial.options.from = Side::kLeft;
  CHECK(problems(trial, made({{"b.0", {1}}, {"same", {1}}})).size() == 2);
  trial.options.from.reset();
  CHECK(id(trial, made({{"c", {1}}})) == "map_side_unclear");
}

TEST_CASE("sizes and shapes that do not fit are said with where each is from") {
  const std::string map = "size h = heads\nwq [(h d 2) i] = q [(h 2 d) i]";
  CHECK(said({.map = map, .config = R"({"heads": 3})"}, made({{"wq", {8, 3}}})) ==
        "a.map:2:5: tensor 'wq': a size does not divide evenly (got [8, 3], expected dim 0 to be (h d 2), of which d has no whole size, "
        "where h = "
        "3 (heads "
        "of config.json))");
  CHECK(said({.map = map}, made({{"wq", {8, 3}}})) ==
        "a.map:2:5: tensor 'wq': neither the configuration nor the shapes determine this size: h and d in (h d 2) = 8");
  CHECK(said({.map = map, .sets = {"h=2", "d=3"}}, made({{"wq", {8, 3}}})) ==
        "a.map:2:5: tensor 'wq': a shape does not match the map's sizes (got [8, 3], expected dim 0 to be (h d 2) = 12, where "
        "h = 2 "
        "(as set), d = 3 (as set))");
  CHECK(id({.map = map, .sets = {"h=2"}}, made({{"wq", {8}}})) == "map_size_differs");
  CHECK(id({.map = map, .config = R"({"heads": 0})"}, made({{"wq", {0, 3}}})) == "map_size_unknown");  // d beside a 0
  CHECK(id({.map = map, .config = R"({"heads": 0})"}, made({{"wq", {8, 3}}})) == "map_size_differs");
  CHECK(id({.map = "a [x y] = b [y x]\nc [x] = d [x]"}, made({{"a", {2, 3}}, {"c", {9}}})).empty());  // x is each line's own
  CHECK(id({.map = "size x = n\na [x y] = b [y x]\nc [x] = d [x]"}, made({{"a", {2, 3}}, {"c", {9}}})) == "map_size_differs");
  CHECK(id({.map = "a [x x2] = b [(x x2)]\nsize x2 = x * x"}, made({{"a", {2, 4}}})).empty());
  CHECK(id({.map = "a.{e} [f] = b [e f]"}, made({{"a.0", {2}}, {"a.1", {3}}})) == "map_size_differs");
  CHECK(id({.map = "size x = p - q\na [x] = b [x]", .config = R"({"p": 1, "q": 2})"}, made({{"a", {2}}})) == "map_size_remainder");
  CHECK(id({.map = "size x = p / q\na [x] = b [x]", .config = R"({"p": 3, "q": 2})"}, made({{"a", {2}}})) == "map_size_remainder");
  CHECK(id({.map = "size x = p / q\na [x] = b [x]", .config = R"({"p": 3, "q": 0})"}, made({{"a", {2}}})) == "map_size_remainder");
  CHECK(id({.map = "size x = p * p\na [x] = b [x]", .config = R"({"p": 4611686018427387904})"}, made({{"a", {2}}})) == "map_too_many");
  CHECK(id({.map = "size x = p | q\na [x] = b [x]", .config = R"({"p": null, "q": 2})"}, made({{"a", {2}}})).empty());
  CHECK(id({.map = "size x = x\na [x] = b [x]", .config = R"({"x": 3})"}, made({{"a", {2}}})) == "map_size_differs");
  CHECK(id({.map = "size u = g\na [(g + u)] = b [g], c [u]"}, made({{"a", {3}}})) == "map_size_remainder");
  CHECK(id({.map = map, .sets = {"h=two"}}, made({{"wq", {8, 3}}})) == "map_setting");
  CHECK(id({.map = map, .sets = {"2=3"}}, made({{"wq", {8, 3}}})) == "map_setting");
}

TEST_CASE("an axis found by dividing by a size of the model is the same in all lines of a layer") {
  const std::string map = "size h = heads\nsize n = groups\nwq.{l} [(h d 2) i] = q.{l} [(h 2 d) i]\nwk.{l} [(n d 2) i] = k.{l} [(n 2 d) i]";
  const MadeTensors from = made({{"wk.0", {4, 3}}, {"wk.1", {8, 3}}, {"wq.0", {8, 3}}, {"wq.1", {16, 3}}});  // layers may differ
  CHECK(id({.map = map, .config = R"({"heads": 2, "groups": 1})"}, from).empty());
  for (const char* config : {R"({"heads": 4, "groups": 1})", R"({"heads": 1, "groups": 1})", R"({"heads": 2, "groups": 2})"})
    CHECK(said({.map = map, .config = config}, from).find("one axis has two sizes in a layer") != std::string::npos);
  CHECK(said({.map = map, .config = R"({"heads": 4, "groups": 1})"}, from) ==
        "a.map:4:9: tensor 'wk.0': one axis has two sizes in a layer (got d = 1 in wq.0 "
        "(line 3) "
        "and d = 2 in wk.0 (line 4), expected one size, given n = 1 (groups of config.json))");
  const MadeTensors there = carried_out(Trial{.map = map, .config = R"({"heads": 2, "groups": 1})"}.resolve(from), from);
  CHECK(id({.map = map, .config = R"({"heads": 4, "groups": 1})"}, there) == "map_size_differs");
  // Other names are other axes; so are those of another branch, and sizes that only shapes show.
  CHECK(id({.map = "size h = heads\na [(h d)] = b [(h d)]\nc [(h e)] = f [(h e)]", .config = R"({"heads": 2})"},
           made({{"a", {4}}, {"c", {6}}}))
            .empty());
  CHECK(id({.map = "a [(2 d)] = b [2 d]\nc [(2 d)] = f [2 d]"}, made({{"a", {4}}, {"c", {6}}})).empty());
}

TEST_CASE("a line with the same axes on both sides moves nothing, and its sizes are compared as far as they are known") {
  const std::string map = "size h = heads\nsize k = head\nq [(h k) d] = q [(h k) d]\nk [(n k)] = k [(n k)]";
  const MadeTensors from = made({{"k", {6}}, {"q", {8, 3}}});
  there_and_back({.map = map}, from);
  there_and_back({.map = map, .config = R"({"heads": 4})"}, from);
  there_and_back({.map = map, .config = R"({"heads": 4, "head": 2})"}, from);
  for (const char* config : {R"({"heads": 4, "head": 3})", R"({"heads": 2, "head": 2})"})
    for (const Side side : {Side::kLeft, Side::kRight})
      CHECK(id({.map = map, .config = config, .options = {.from = side}}, from) == "map_size_differs");
  CHECK(id({.map = map, .config = R"({"heads": 3})"}, from) == "map_size_remainder");
}

TEST_CASE("a key of a line that is not used is told with its line") {
  const auto first = [](const Trial& trial, const MadeTensors& from) {
    return error_line([&] { throw Error(trial.resolve(from).problems.at(0)); });
  };
  CHECK(first({.map = "x | y = a"}, made({{"x", {1}}, {"y", {1}}})).starts_with("a.map:1:5: tensor 'y': the line of this key is not used"));
  CHECK(first({.map = "either\na = b\nor\nc = d\nend"}, made({{"a", {1}}, {"c", {1}}}))
            .starts_with("a.map:4:1: tensor 'c': the line of this key is not used"));
  CHECK(first({.map = "a = b"}, made({{"a", {1}}, {"c", {1}}})) == "a.map: tensor 'c': no line of the map matches this key");
}

TEST_CASE("a plan of more tensors than the memory holds says what would be enough") {
  Trial trial{.map = "a [e d] = b.{e} [d]", .options = {.memory_bytes = 50'000}};
  CHECK(trial.resolve(made({{"a", {20, 1}}})).targets.size() == 20);
  try {
    trial.resolve(made({{"a", {100, 1}}}));
    FAIL("the memory is enough");
  } catch (const Error& e) {
    CHECK(e.problem().id == ProblemId::memory_cap);
    CHECK(e.problem().enough_bytes > 100 * 1000);
  }
}

TEST_CASE("a configuration that lies is refused") {
  const auto config = [](const std::string& json) {
    return error_line([&] { Trial{.map = "size h = heads\na [h] = b [h]", .config = json}.resolve(made({{"a", {2}}})); });
  };
  CHECK(config("{") == "config.json @ 0x1: the model's configuration is invalid: no JSON");
  CHECK(config("[]") == "config.json: the model's configuration is invalid: no JSON object");
  CHECK(config(R"({"heads": "2"})") == "config.json: the model's configuration is invalid (got "
                                       "no number below 2^62 at heads, expected a size)");
  for (const char* bad : {"-1", "1.5", "true", "[]", "{}", "9e99", "9223372036854775807"})
    CHECK(config(std::string("{\"heads\": ") + bad + "}") != "no error");
  CHECK(config(R"({"heads": 2, "heads": 3})").find("twice") != std::string::npos);
  CHECK(config(R"({"heads": 2.0})") == "no error");
  CHECK(config(R"({"list": [{"heads": 3}, 4], "heads": 2})") == "no error");
}

TEST_CASE("quantised tensors are named with their scales, and refused") {
  const Trial trial{.map = "{*} = m.{*}"};
  CHECK(said(trial, made({{"a.weight", {2}}, {"a.weight_scale_inv", {1}}})) ==
        "tensor 'a.weight': the tensor is quantized: its values mean nothing without its scales (scales in a.weight_scale_inv)");
  CHECK(id(trial, made({{"a_blocks", {2}}, {"a_scales", {1}}})) == "map_quantized");
  CHECK(id(trial, made({{"a.qweight", {2}}, {"a.scales", {1}}})) == "map_quantized");
  CHECK(id(trial, made({{"a.weight_packed", {2}}, {"a.weight_scale", {1}}})) == "map_quantized");
  CHECK(id(trial, made({{"a.scales", {1}}, {"b.weight", {1}}})).empty());
}

TEST_CASE("tensors that become one have one dtype, unless they are cast") {
  const ModelMap map = read_map("a [(x + y)] = b [x], c [y]", "a.map", {});
  const std::vector<MapSource> sources{{"b", DType::bfloat16, {2}}, {"c", DType::float32, {3}}};
  CHECK(error_line([&] { apply_map(map, {}, {}, sources, {}); }) ==
        "a.map:1:1: tensor 'a': tensors that become one have different dtypes: bfloat16 of b and float32 of c");
  CHECK(apply_map(map, {}, {.may_mix_dtypes = true}, sources, {}).targets[0].dtype == DType::float32);
  const std::vector<MapSource> halves{{"b", DType::bfloat16, {2}}, {"c", DType::float16, {3}}};
  CHECK(apply_map(map, {}, {.may_mix_dtypes = true}, halves, {}).targets[0].dtype == DType::float32);
}
