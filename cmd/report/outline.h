// A checkpoint on one screen: its keys, folded.
//
//   layers.{0..31}.attention.wq.weight  bfloat16  [4096, 4096]  x32  1.0 GiB  Shard(0) x8
//   optimizer.state.layers.{0..31}      1,440 tensors
//   train_state.step = 1000
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "select/select.h"

namespace dcp::cmd {

// Many keys in few rows: keys that differ only in numbers, or in their last component, share a row, and what would not fit is folded to one row
// per subtree.
//
//   layers.{0..31}.attention.wq.weight
//   optimizer.state.layers.{0..31}

struct FoldOptions {
  size_t rows = 40;             // target number of rows if no depth is given
  std::optional<size_t> depth;  // components that are shown, each subtree in a row of its own
};

struct FoldedRow {
  std::string label;       // escaped; braces list what several keys have in one place
  bool is_state = false;   // not model
  bool is_folded = false;  // a subtree, of keys that may be unlike
  std::vector<uint32_t> ids;
};

class Fold {
 public:
  explicit Fold(FoldOptions options) : options_(options) {}

  struct Key {
    std::vector<std::string> words;  // components, see components_of
    std::string kind;                // what keys of one row have in common beside their names
    bool is_state = false, is_object = false, has_value = false;
    uint32_t id = 0;
  };
  void add(const Key& key);
  // Takes the rows. Call once.
  std::vector<FoldedRow> rows();

 private:
  // A component that stands for several: numbers, or words. The place of a number is part of what rows have in common.
  struct Row {
    FoldedRow sum;
    std::string kind;
    uint64_t objects = 0;
    bool has_values = false;                                   // to show
    bool is_apart = false;                                     // from others of its subtree, for its value's sake
    std::vector<std::set<std::string, NaturalLess>> variants;  // by place
  };
  using Rows = std::vector<Row>;
  enum class Part : uint8_t { kStateTensors, kState, kModel };  // what is folded, in this order
  static bool belongs_to(Part part, const Row& row);
  template <class KeyOf>
  static Rows joined_by(Rows rows, const KeyOf& key_of);
  static void join(Row& into, const Row& other);
  static std::string shape_of(const Row& row, bool without_last);
  static std::string label_of(const Row& row);
  static Rows joined_in_last(Rows rows, size_t limit);
  static Rows cut(Rows rows, size_t depth, Part part);
  static Rows folded(Rows rows, size_t limit);

  const FoldOptions options_;
  Rows rows_;
  std::map<std::pair<std::string, std::string>, size_t> places_;  // by words with their numbers left out, and kind
};

// Parts of a key at its dots, added to `words`.
void add_components(std::string_view key, std::vector<std::string>& words);

struct OutlineRow {
  std::string label;      // escaped; braces list what several keys have in one place
  bool is_state = false;  // not model
  uint64_t tensors = 0, objects = 0, bytes = 0;
  bool has_value = false;        // the label includes the value of the objects
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
                                      FoldOptions options, const std::map<KeyRef, std::string>* values = nullptr);

// Rows in natural order: layers.2 before layers.10, the model before what a trainer keeps beside it.
std::vector<OutlineRow> outline_of(const Catalog& catalog, const Selection& selection, const OutlineOptions& options);

}  // namespace dcp::cmd
