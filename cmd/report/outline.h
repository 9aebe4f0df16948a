// A checkpoint on one screen: its keys, folded.
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

#include "report/fold.h"
#include "select/select.h"

namespace dcp::cmd {

struct OutlineRow {
  std::string label;      // escaped; braces list what several keys have in one place
  bool is_state = false;  // not model
  uint64_t tensors = 0, objects = 0, bytes = 0;
  bool has_value = false;        // the label includes the value of one object
  std::optional<Entry> example;  // one of several keys that differ only in name; nullopt: a folded subtree
  uint64_t keys() const { return tensors + objects; }
};

struct OutlineOptions {
  size_t rows = 40;                                       // target number of rows if no depth is given
  std::optional<size_t> depth;                            // components that are shown, each subtree in a row of its own
  bool by_size = false;                                   // the largest first
  const std::map<KeyRef, std::string>* values = nullptr;  // of small objects
};

// Bytes of a tensor's elements, or of an object's item.
uint64_t entry_bytes(const Catalog& catalog, const Entry& e);

// Of these entries, by their numbers, those that share a row.
std::vector<FoldedRow> folded_entries(const Catalog& catalog, const Selection& selection, const std::vector<Entry>& entries,
                                      FoldOptions options);

// Rows in natural order: layers.2 before layers.10, the model before what a trainer keeps beside it.
std::vector<OutlineRow> outline_of(const Catalog& catalog, const Selection& selection, const OutlineOptions& options);

}  // namespace dcp::cmd
