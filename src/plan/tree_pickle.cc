#include "plan/tree_pickle.h"

#include <charconv>

namespace dcp {
namespace {

// SETITEMS and APPENDS are written in batches, as by Python's pickler, which keeps the reader's stack small.
constexpr size_t kBatch = 1000;

void write_key(const PathPart& part, PickleWriter& writer) {
  int64_t number = 0;
  if (part.is_integer && std::from_chars(part.name.data(), part.name.data() + part.name.size(), number).ec == std::errc{})
    writer.integer(number);
  else writer.text(part.name);
}

}  // namespace

// Walks depth-first with an explicit stack, since paths can be deep.
void write_container(const Tree& tree, uint32_t node, PickleWriter& writer, const std::function<void(uint32_t)>& leaf, ListHoles& holes) {
  struct Level {
    uint32_t node;
    size_t child = 0;
    size_t written = 0;  // elements of a list, holes included
  };
  std::vector<Level> stack;
  const auto open = [&](uint32_t n) {
    writer.op(tree.node(n).kind == Tree::Node::Kind::kList ? Op::EMPTY_LIST : Op::EMPTY_DICT);
    stack.push_back({n});
  };
  open(node);
  while (!stack.empty()) {
    Level& level = stack.back();
    const Tree::Node& n = tree.node(level.node);
    const bool list = n.kind == Tree::Node::Kind::kList;
    const size_t done = list ? level.written : level.child;
    if (level.child == n.children.size()) {
      if (done > 0) writer.op(list ? Op::APPENDS : Op::SETITEMS);
      stack.pop_back();
      continue;
    }
    if (done % kBatch == 0) {
      if (done > 0) writer.op(list ? Op::APPENDS : Op::SETITEMS);
      writer.op(Op::MARK);
    }
    if (list && static_cast<int64_t>(level.written) < n.children[level.child].first.position) {
      writer.op(Op::NONE);
      if (holes.count++ == 0) {
        std::vector<PathPart> path;
        for (size_t l = 0; l + 1 < stack.size(); ++l) path.push_back(tree.node(stack[l].node).children[stack[l].child - 1].first);
        path.push_back({.name = {}, .position = static_cast<int64_t>(level.written)});
        holes.example = joined(path);
      }
      ++level.written;
      continue;
    }
    const auto& [part, child] = n.children[level.child++];
    ++level.written;
    if (!list) write_key(part, writer);
    if (tree.node(child).kind == Tree::Node::Kind::kLeaf) leaf(tree.node(child).entry);
    else open(child);
  }
}

}  // namespace dcp
