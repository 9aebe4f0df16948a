// The nested containers that a .pt file holds, from the final paths of its keys: names make dicts, positions make lists (holes become
// None, as torch's format_utils does). Paths are never split on dots.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
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

// Appends the dict or list at `node`; `leaf` appends the value of each leaf, given the entry's number. Adds to `holes` the positions that
// it filled with None.
void write_container(const Tree& tree, uint32_t node, PickleWriter& writer, const std::function<void(uint32_t entry)>& leaf,
                     ListHoles& holes);

// How torch up to 2.3 flattens: a dict or list with no tensor anywhere below it is "terminal", and saved as a single byte item, while later
// releases save each of its leaves. A trainer on 2.3 looks for that one item only. Source: torch/distributed/checkpoint/_traverse.py of 2.3
// and 2.4, _is_terminal.

// The keys of a DCP folder.
struct FlatEntries {
  std::vector<Entry> entries;  // the selection's; of those that merge into one item, the first, with the container's key and path
  std::map<uint32_t, uint32_t>
      terminal;                  // entries that are such an item -> their node of the tree, whose leaves are entries of the selection
  std::optional<Tree> tree;      // if there are any
  std::deque<std::string> keys;  // not from the selection

  FlatEntries() = default;
  FlatEntries(FlatEntries&&) = default;  // entries view `keys`
};

// One entry per leaf, as in torch 2.4 and later.
FlatEntries flat_leaves(const Selection& selection);
// Throws what Tree throws.
FlatEntries flat_terminal(const Catalog& catalog, const Selection& selection, const Limits& limits);

}  // namespace dcp
