// How torch up to 2.3 flattens: a dict or list with no tensor anywhere below it is "terminal", and saved as a single byte item, while later
// releases save each of its leaves. A trainer on 2.3 looks for that one item only. Source: torch/distributed/checkpoint/_traverse.py of 2.3
// and 2.4, _is_terminal.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "plan/tree.h"
#include "select/select.h"

namespace dcp {

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
