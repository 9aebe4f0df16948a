// The nested containers that a .pt file holds, from the final paths of its keys: names make dicts, positions make lists (holes become
// None, as torch's format_utils does). Paths are never split on dots.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "pickle/writer.h"
#include "plan/plan.h"
#include "select/select.h"

namespace dcp {

class Tree {
 public:
  struct Node {
    enum class Kind : uint8_t { kLeaf, kDict, kList } kind = Kind::kDict;
    uint32_t entry = 0;                                   // kLeaf: the caller's number
    std::vector<std::pair<PathPart, uint32_t>> children;  // in order of first appearance; a list's are sorted by position when walked
  };

  // `entries` are some of the selection's. Throws keys_collide, path_conflict, over_limit, naming the key and `path`.
  Tree(const Catalog& catalog, const Selection& selection, const std::vector<Entry>& entries, const Limits& limits);
  const Node& node(uint32_t n) const { return nodes_[n]; }  // 0 is the root, a dict; children have higher numbers than their parents
  size_t size() const { return nodes_.size(); }

 private:
  std::vector<Node> nodes_;
  std::unordered_map<PathStep, uint32_t, PathStepHash> index_;
};

// Writes the containers of a tree as pickle opcodes.

// Appends the dict or list at `node`; `leaf` appends the value of each leaf, given the entry's number. Adds to `holes` the positions that
// it filled with None.
void write_container(const Tree& tree, uint32_t node, PickleWriter& writer, const std::function<void(uint32_t entry)>& leaf,
                     ListHoles& holes);

}  // namespace dcp
