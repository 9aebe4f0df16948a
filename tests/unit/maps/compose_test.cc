// Two maps in a row are what one is after the other, element by element.
#include <catch2/catch_test_macros.hpp>

#include "maps/index_map.h"
#include "maps/mapped.h"

using namespace dcp;
using namespace dcp::test;

namespace {

// What `from` makes of `tensors`, and `to` of that, at once and one after the other.
void try_both(const std::string& from, const std::string& to, const MadeTensors& tensors, const std::string& config = "{}") {
  Trial first{.map = from, .config = config}, second{.map = to, .config = config};
  first.options.from = maps::Side::kLeft;
  second.options.from = maps::Side::kRight;
  if (to.find("pad") != std::string::npos) second.sets = {"pad=2"};
  const maps::Mapping one = first.resolve(tensors);
  const MadeTensors between = carried_out(one, tensors);
  const maps::Mapping two = second.resolve(between);
  const MadeTensors expected = carried_out(two, between);
  // Sources of `two` are places in `between`, which has the order of `one.targets`.
  const std::vector<IndexMap> both = maps::compose(two.targets, one.targets, Limits());
  REQUIRE(both.size() == expected.size());
  for (const IndexMap& m : both) {
    INFO(m.key);
    CHECK(carried_out(m, tensors) == expected.at(m.key));
  }
}

}  // namespace

TEST_CASE("two maps in a row: rotary pairs, and groups of heads in one tensor") {
  const std::string config = R"({"h": 4, "n": 2, "k": 6})";
  const std::string pairs = "size h = h\nsize n = n\nwq [(h d 2) i] = q [(h 2 d) i]\nwk [(n d 2) i] = k [(n 2 d) i]\nwv = v\n";
  const std::string groups = "size n = n\nsize k = k\nsize v = k\nqkv [(n (q + k + v)) i] = q [(n q) i], k [(n k) i], v [(n v) i]\n";
  try_both(pairs, groups, made({{"wq", {24, 3}}, {"wk", {12, 3}}, {"wv", {12, 3}}}), config);
  try_both(groups, pairs, made({{"qkv", {48, 3}}}), config);
  try_both(groups, groups, made({{"qkv", {48, 3}}}), config);
}

TEST_CASE("two maps in a row: experts apart, stacked, fused and transposed") {
  const std::string fused = "size u = g\ngate_up [e (g + u) d] = {e}.gate [g d], {e}.up [u d]\n";
  const std::string stacked = "w1 [e d f] = {e}.gate [f d]\nw3 [e f d] = {e}.up [f d]\n";
  const std::string interlaced = "size a = 1\nsize b = 1\nboth [e d (g (a + b))] = {e}.gate [(g a) d], {e}.up [(g b) d]\n";
  try_both(fused, stacked, made({{"gate_up", {3, 10, 4}}}));
  try_both(stacked, fused, made({{"w1", {3, 4, 5}}, {"w3", {3, 5, 4}}}));
  try_both(fused, interlaced, made({{"gate_up", {3, 10, 4}}}));
}

TEST_CASE("two maps in a row: published in one tensor, of which each cuts another part, with padding") {
  const std::string apart = "size x = x\nsize y = y\nq [x d], k [y d], v [z d] = in [(x + y + z) d]\n";
  const std::string halves = "size h = h\none [h d], two [g d] = in [(h + g) d]\n";
  try_both(apart, halves, made({{"q", {4, 2}}, {"k", {2, 2}}, {"v", {6, 2}}}), R"({"x": 4, "y": 2, "h": 6})");
  try_both(apart, halves, made({{"q", {4, 2}}, {"k", {2, 2}}, {"v", {6, 2}}}), R"({"x": 4, "y": 2, "h": 3})");
  const std::string padded = "size v = v\nemb [(v + pad) d] = e [v d]\n";
  try_both("x = e\n", padded, made({{"x", {5, 2}}}), R"({"v": 5})");
}

TEST_CASE("two maps whose axes do not refine each other are refused") {
  const std::string by_two = "a [(x 2) d] = t [(2 x) d]\n", by_three = "b [(x 3) d] = t [(3 x) d]\n";
  const MadeTensors tensors = made({{"a", {12, 1}}});
  CHECK_THROWS_AS(try_both(by_two, by_three, tensors), Error);
}
