#include "plan/tree.h"

#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "catalog/build.h"
#include "catalog/made_checkpoint.h"

using namespace dcp;
using namespace dcp::test;
using Path = std::vector<std::string>;

namespace {

std::string text_of_node(const Tree& tree, uint32_t n) {
  const Tree::Node& node = tree.node(n);
  if (node.kind == Tree::Node::Kind::kLeaf) return std::to_string(node.entry);
  const bool list = node.kind == Tree::Node::Kind::kList;
  std::string text;
  for (const auto& [part, child] : node.children)
    text += (text.empty() ? "" : ", ") + (list ? std::to_string(part.position) : "'" + std::string(part.name) + "'") + ": " +
            text_of_node(tree, child);
  return (list ? "[" : "{") + text + (list ? "]" : "}");
}

// The tree of keys k0, k1, ... that have these paths; leaves are shown by their number.
std::string tree_of(const std::vector<Path>& paths, const Limits& limits = {}) {
  MadeCheckpoint made;
  for (size_t i = 0; i < paths.size(); ++i) {
    made.blobs.push_back({.key = "k" + std::to_string(i), .pickle = {}});
    made.blobs.back().path = paths[i];
  }
  const Catalog catalog = build_catalog(made.content(), "ckpt", "ckpt").catalog;
  const Selection selection = select_keys(catalog, {});
  return text_of_node(Tree(catalog, selection, selection.entries, limits), 0);
}
std::string refusal(const std::vector<Path>& paths, const Limits& limits = {}) {
  return error_line([&] { tree_of(paths, limits); });
}

}  // namespace

TEST_CASE("names make dicts in order of first appearance, and are never split") {
  CHECK(tree_of({{"model", "w.x"}, {"optim", "state"}, {"model", "b"}}) == "{'model': {'w.x': 0, 'b': 2}, 'optim': {'state': 1}}");
  CHECK(tree_of({{"a"}, {""}, {"b", ""}}) == "{'a': 0, '': 1, 'b': {'': 2}}");
  CHECK(tree_of({{"1"}, {"a", "#1"}}) == "{'1': 0, 'a': [1: 1]}");
}

TEST_CASE("positions make lists, sorted, whatever the order of the keys") {
  CHECK(tree_of({{"l", "#2"}, {"l", "#0"}}) == "{'l': [0: 1, 2: 0]}");
  CHECK(tree_of({{"l", "#1", "x"}, {"l", "#0", "#0"}, {"l", "#1", "y"}}) == "{'l': [0: [0: 1], 1: {'x': 0, 'y': 2}]}");
}

TEST_CASE("paths that contradict each other") {
  const std::string conflict = "path_conflict";
  const auto id = [](const std::vector<Path>& paths) { return error_id([&] { tree_of(paths); }); };
  CHECK(id({{"a", "x"}, {"a", "#0"}}) == conflict);
  CHECK(id({{"a", "#0"}, {"a", "x"}}) == conflict);
  CHECK(id({{"a"}, {"a", "x"}}) == conflict);
  CHECK(id({{"a"}, {"a", "#0"}}) == conflict);
  CHECK(id({{"a", "x"}, {"a"}}) == conflict);
  CHECK(id({{"a", "#0"}, {"a"}}) == conflict);
  CHECK(id({{"#0"}}) == conflict);
  CHECK(refusal({{"a"}, {"a", "x"}}) == "ckpt: object 'k1': the paths of the planner data contradict each other");
}

TEST_CASE("two keys of one path") {
  CHECK(refusal({{"a", "x"}, {"a", "x"}}) ==
        "ckpt: object 'k1': two keys have the same name in the output: 'k1', which is also the name of 'k0'");
  CHECK(error_id([&] { tree_of({{"l", "#3"}, {"l", "#3"}}); }) == "keys_collide");
}

TEST_CASE("limits of depth and of holes") {
  CHECK(tree_of({{"a", "b", "c"}}, {.pickle_depth = 3}) == "{'a': {'b': {'c': 0}}}");
  CHECK(refusal({{"a", "b", "c", "d"}}, {.pickle_depth = 3}).ends_with("(got 4 path components, expected at most 3)"));
  CHECK(tree_of({{"l", "#5"}}, {.list_padding = 5}) == "{'l': [5: 0]}");
  CHECK(refusal({{"l", "#6"}}, {.list_padding = 5}).ends_with("(got a list position of 6, expected at most 5 holes in all)"));
  CHECK(error_id([&] { tree_of({{"l", "#3"}, {"m", "#3"}}, {.list_padding = 5}); }) == "over_limit");
  CHECK(tree_of({{"l", "#6"}, {"l", "#0"}}, {.list_padding = 5}) == "{'l': [0: 1, 6: 0]}");
  CHECK(error_id([&] { tree_of({{"l", "#9223372036854775807"}}); }) == "over_limit");
}
