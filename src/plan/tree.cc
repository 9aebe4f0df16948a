#include "plan/tree.h"

#include <algorithm>

#include "base/text.h"

namespace dcp {
namespace {

Tree::Node::Kind kind_for(const PathPart& child) { return child.position >= 0 ? Tree::Node::Kind::kList : Tree::Node::Kind::kDict; }

using Kind = Tree::Node::Kind;

// For each node, whether a tensor lies at it or below it. Children have higher numbers than their parents.
std::vector<bool> nodes_with_tensors(const Tree& tree, const Selection& selection) {
  std::vector<bool> with(tree.size());
  for (uint32_t n = static_cast<uint32_t>(tree.size()); n-- > 0;) {
    const Tree::Node& node = tree.node(n);
    if (node.kind == Kind::kLeaf) with[n] = !selection.entries[node.entry].is_blob();
    for (const auto& [part, child] : node.children) with[n] = with[n] || with[child];
  }
  return with;
}

}  // namespace

Tree::Tree(const Catalog& catalog, const Selection& selection, const std::vector<Entry>& entries, const Limits& limits) : nodes_(1) {
  for (uint32_t e = 0; e < entries.size(); ++e) {
    const std::span<const PathPart> path = selection.path(entries[e]);
    const Place place{.path = catalog.path, .tensor = std::string(catalog.key(entries[e].ref)), .object = entries[e].is_blob()};
    if (path.size() > limits.pickle_depth)
      fail(ProblemId::over_limit, place, std::to_string(path.size()) + " path components",
           "at most " + std::to_string(limits.pickle_depth));
    uint32_t at = 0;
    for (size_t i = 0; i < path.size(); ++i) {
      const Node::Kind needed = kind_for(path[i]);
      if (nodes_[at].kind != needed && (at == 0 || nodes_[at].kind == Node::Kind::kLeaf || !nodes_[at].children.empty()))
        fail(ProblemId::path_conflict, place);
      nodes_[at].kind = needed;
      const auto [it, fresh] = index_.try_emplace({at, path[i]}, static_cast<uint32_t>(nodes_.size()));
      if (fresh) {
        nodes_[at].children.emplace_back(path[i], it->second);
        nodes_.emplace_back();
      } else if (i + 1 == path.size()) {
        if (nodes_[it->second].kind != Node::Kind::kLeaf) fail(ProblemId::path_conflict, place);
        fail(ProblemId::keys_collide, place,
             "'" + std::string(entries[e].key) + "', which is also the name of '" +
                 std::string(catalog.key(entries[nodes_[it->second].entry].ref)) + "'");
      }
      at = it->second;
    }
    nodes_[at].kind = Node::Kind::kLeaf;
    nodes_[at].entry = e;
  }
  index_.clear();
  uint64_t max = limits.list_padding;  // holes of all lists together
  for (Node& n : nodes_) {
    if (n.kind != Node::Kind::kList) continue;
    std::ranges::sort(n.children, {}, [](const auto& c) { return c.first.position; });
    const auto length = static_cast<uint64_t>(n.children.back().first.position) + 1;
    const uint64_t holes = length - n.children.size();
    if (holes > max)
      fail(ProblemId::over_limit, {.path = catalog.path}, "a list position of " + std::to_string(length - 1),
           "at most " + std::to_string(limits.list_padding) + " holes in all");
    max -= holes;
  }
}

namespace {

// SETITEMS and APPENDS are written in batches, as by Python's pickler, which keeps the reader's stack small.
constexpr size_t kBatch = 1000;

void write_key(const PathPart& part, PickleWriter& writer) {
  const auto number = part.is_integer ? decimal<int64_t>(part.name) : std::nullopt;
  if (number) writer.integer(*number);
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

FlatEntries flat_leaves(const Selection& selection) {
  FlatEntries flat;
  flat.entries = selection.entries;
  return flat;
}

FlatEntries flat_terminal(const Catalog& catalog, const Selection& selection, const Limits& limits) {
  FlatEntries flat;
  flat.tree.emplace(catalog, selection, selection.entries, limits);
  const Tree& tree = *flat.tree;
  const std::vector<bool> with_tensor = nodes_with_tensors(tree, selection);

  // By entry of the selection: the outermost terminal container around it, and how many components of the path lead there.
  struct Around {
    uint32_t node = 0, depth = 0;  // node 0, the root: none
  };
  std::vector<Around> around(selection.entries.size());
  struct Visit {
    uint32_t node, depth;
    Around in;
  };
  std::vector<Visit> todo{{0, 0, {}}};
  while (!todo.empty()) {
    Visit v = todo.back();
    todo.pop_back();
    const Tree::Node& node = tree.node(v.node);
    if (node.kind == Kind::kLeaf) around[node.entry] = v.in;
    else if (v.node != 0 && v.in.node == 0 && !with_tensor[v.node]) v.in = {v.node, v.depth};
    for (const auto& [part, child] : node.children) todo.push_back({child, v.depth + 1, v.in});
  }

  std::vector<bool> done(tree.size());
  for (size_t e = 0; e < selection.entries.size(); ++e) {
    Entry entry = selection.entries[e];
    if (const auto [node, depth] = around[e]; node != 0) {
      if (done[node]) continue;
      done[node] = true;
      flat.terminal.emplace(static_cast<uint32_t>(flat.entries.size()), node);
      entry.count = depth;
      entry.key = flat.keys.emplace_back(joined(selection.path(entry)));
    }
    flat.entries.push_back(entry);
  }
  return flat;
}

}  // namespace dcp
