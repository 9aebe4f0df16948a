// Which keys, under which names: select, then root. A pure function of the catalog's keys and paths.
//
// Order (the command line's contract): --include/--exclude/--key on the flat key of the source, then --model-only and --root, which
// also strip leading path components.
#pragma once

#include <string>
#include <vector>

#include "catalog/catalog.h"

namespace dcp {

struct KeyRule {
  enum class Kind : uint8_t { kInclude, kExclude, kKey };
  Kind kind = Kind::kInclude;
  std::string text;  // a glob (`*` crosses dots), or an exact key
};

struct SelectOptions {
  std::vector<KeyRule> rules;  // in order, last match wins; if the first is an include or key, all else starts out
  bool model_only = false;
  bool keep_root = false;      // with model_only: do not strip the root
  std::string root;            // dotted path components at any depth: take this subtree and strip it
  bool tensors_only = false;   // byte items out
};

// A key that stays: tensor t as t, byte item b as ~b, and how many leading path components were stripped.
struct Entry {
  int64_t id = 0;
  uint32_t skip = 0;
  bool is_blob() const { return id < 0; }
  TensorId tensor() const { return static_cast<TensorId>(id); }
  BlobId blob() const { return static_cast<BlobId>(~id); }
};

struct Selection {
  std::vector<Entry> entries;         // in the metadata's order
  std::string stripped_root;          // "app.model", or ""
  uint64_t dropped_by_rules = 0;      // keys
  uint64_t dropped_non_model = 0;     // keys
  std::vector<std::string> dropped_top;  // their first components, distinct, sorted
  uint64_t dropped_outside_root = 0;
  uint64_t dropped_blobs = 0;         // by tensors_only
};

// Throws nothing_selected, root_missing, key_missing (an exact --key that is not there).
Selection select_keys(const Catalog& catalog, const SelectOptions& options);

// One component of a final path, as a value.
struct PathPart {
  std::string_view name;
  int64_t position = -1;  // >= 0: a list position
  bool operator==(const PathPart&) const = default;
};
std::string_view source_key(const Catalog& catalog, const Entry& entry);
std::vector<PathPart> final_path(const Catalog& catalog, const Entry& entry);
std::string final_key(const Catalog& catalog, const Entry& entry);

// Whether a key is state that is not model: a component of its path is one of a closed list, with none named `model` above it.
bool is_non_model(const std::vector<PathPart>& path, bool has_planner_data);

}  // namespace dcp
