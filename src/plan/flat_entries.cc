#include "plan/flat_entries.h"

namespace dcp {
namespace {

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
