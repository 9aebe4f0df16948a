// A checkpoint on one screen: keys that differ only in numbers, or in their last component, are one row, and what would not fit is folded to
// one row for each subtree.
//
//   layers.{0..31}.attention.wq.weight  bfloat16  [4096, 4096]  x32  1.0 GiB  Shard(0) x8
//   optimizer.state.layers.{0..31}      1,440 tensors
//   train_state.step = 1000
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "catalog/select.h"

namespace dcp::cmd {

struct OutlineRow {
  std::string label;      // escaped; braces stand for what several keys have in one place
  bool is_state = false;  // not model
  uint64_t tensors = 0, objects = 0, bytes = 0;
  bool has_value = false;        // the label says it, of one object
  std::optional<Entry> example;  // of keys that are alike in all but their names; nullopt: a folded subtree
  uint64_t keys() const { return tensors + objects; }
};

struct OutlineOptions {
  size_t rows = 40;                                       // to fold to, where no depth is asked for
  std::optional<size_t> depth;                            // components that are shown
  const std::map<KeyRef, std::string>* values = nullptr;  // of small objects
};

// Rows in natural order: layers.2 before layers.10, the model before what a trainer keeps beside it.
std::vector<OutlineRow> outline_of(const Catalog& catalog, const Selection& selection, const OutlineOptions& options);

// Numbers in texts count by their value: "x.2" < "x.10".
bool natural_less(std::string_view a, std::string_view b);

}  // namespace dcp::cmd
