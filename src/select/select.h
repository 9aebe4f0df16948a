// Which keys, under which names, in which dtypes. A pure function of the catalog.
//
// Order (the command line's contract): select (include, exclude and exact keys, by the flat key of the source) -> root (model only, strip
// or add a root) -> rename (wrapper prefixes, regular expressions, whole names) -> dtype (dtypes.h).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "select/dtypes.h"
#include "select/training_state.h"

namespace dcp {

class KnownKeys;

struct KeyRule {
  enum class Kind : uint8_t { kInclude, kExclude, kKey };
  Kind kind = Kind::kInclude;
  std::string text;  // a glob (`*` crosses dots), a dict whose keys are all meant, or an exact key
};

struct RenameRule {
  std::string regex;        // ECMAScript, searched in the name
  std::string replacement;  // \1 to \9 are the groups
};

// What is made of a rule or rename that matches nothing. Of several excludes one that matches is enough: the others are told.
enum class Unmatched : uint8_t { kRefuse, kRefuseKeys /* exact keys; the others are told */, kTell };

struct SelectOptions {
  std::vector<KeyRule> rules;  // in order, last match wins; if the first is an include or key, all else starts out
  Unmatched unmatched = Unmatched::kRefuseKeys;
  bool model_only = false;
  bool keep_root = false;  // with model_only: do not strip the root
  std::string root;  // dotted path components at any depth (what keys begin with, without planner data): take this subtree and strip it
  bool tensors_only = false;                      // byte items out, and extra states with them
  bool no_extra_states = false;                   // uint8 tensors *._extra_state out: Transformer Engine 2 pickles its objects into these
  std::string add_root;                           // dotted path components put above all paths
  bool clean_fqns = false;                        // strip the prefixes of wrappers
  std::vector<RenameRule> renames;                // each applied to the result of the one before
  std::map<std::string, std::string> rename_map;  // whole names, after the rules
  DtypeOptions dtypes;
  bool may_lack = false;  // a key or root that is not there, or a selection of nothing, is told (Selection::lacks), not thrown
};

// One component of a final path, as a value.
struct PathPart {
  std::string_view name;
  int64_t position = -1;    // >= 0: a list position
  bool is_integer = false;  // the name spells an integer, which the key of the dict is
  bool operator==(const PathPart&) const = default;
};

// In a tree of paths: a part below a place that has a number already.
struct PathStep {
  uint32_t parent = 0;
  PathPart part;
  bool operator==(const PathStep&) const = default;
};
struct PathStepHash {
  size_t operator()(const PathStep& s) const {
    return (std::hash<std::string_view>{}(s.part.name) ^ static_cast<size_t>(s.part.position)) * 0x9E3779B97F4A7C15u + s.parent;
  }
};

// A key that stays, with its final name.
struct Entry {
  KeyRef ref;
  std::string_view key;  // final flat name; the source's own if nothing changed it
  uint32_t first = 0;    // its path, in Selection::parts
  uint32_t count = 0;
  DType dtype{};  // of a tensor: the dtype to write; the metadata's unless it is cast
  bool is_blob() const { return ref.is_blob(); }
  TensorId tensor() const { return ref.tensor(); }
  BlobId blob() const { return ref.blob(); }
};

// Keys that something leaves out, the first of them by name.
struct LeftOut {
  static constexpr size_t kNamed = 10;   // in messages, each by itself
  static constexpr size_t kKept = 1000;  // to be folded, where there are more
  uint64_t keys = 0;
  std::vector<std::string_view> first;
  void add(std::string_view key) {
    if (++keys <= kKept) first.push_back(key);
  }
};

struct UnmatchedRule {
  std::string setting;  // of the request: "exclude", "rename"
  std::string text;     // "optim*"
  auto operator<=>(const UnmatchedRule&) const = default;
};

// Views the catalog's strings, which must outlive it. Movable only: entries view `texts`.
struct Selection {
  Selection() = default;
  Selection(Selection&&) = default;
  Selection& operator=(Selection&&) = default;

  std::vector<Entry> entries;  // in the metadata's order
  std::vector<PathPart> parts;
  std::deque<std::string> texts;          // names that are not the source's
  std::string root;                       // SelectOptions::root
  std::string stripped_root;              // by model_only or root: "app.model", or ""
  TrainingState state;                    // of the whole catalog
  bool joined_pieces = false;             // with model_only: the model was in pieces; stripped_root is that of the first
  std::vector<UnmatchedRule> unmatched;   // rules that match no key
  std::vector<std::string_view> lacking;  // of Catalog::lacking, those that the rules keep
  LeftOut dropped_by_rules, dropped_non_model;
  std::vector<std::string> dropped_top;  // the largest subtrees they make up, sorted
  LeftOut dropped_outside_root;
  std::vector<BlobId> dropped_blobs;  // by tensors_only
  uint64_t dropped_states = 0;        // by no_extra_states
  uint64_t renamed = 0;               // keys whose name a rename, the map or the removal of prefixes changed
  std::vector<std::string> unmapped;  // names of the map that no key has
  uint64_t wrapped = 0;               // keys that still hold a wrapper's prefix, such as _orig_mod.
  std::string wrapped_example;
  uint64_t flat_parameters = 0;  // keys of FSDP1's _flat_param, which stripping prefixes cannot turn into a model's
  std::string flat_example;
  CastSummary casts;
  std::optional<Problem> lacks;  // the first of what may_lack allows; without the root all keys are selected

  std::span<const PathPart> path(const Entry& e) const { return std::span(parts).subspan(e.first, e.count); }
};

// Throws nothing_selected, root_missing, key_missing (an exact key that does not exist, a rule that matches nothing), several_models,
// keys_collide, usage (a bad regex), cast_scaled, cast_opaque.
Selection select_keys(const Catalog& catalog, const SelectOptions& options);

// For an output: keys of a torch.save file that have a number (state_dict.h) lose it. Where the output goes by keys, it refuses two of one
// name; one that goes by paths holds them.
void name_by_paths(const Catalog& catalog, Selection& selection);

// Whether a model-only selection would leave keys out or strip a root.
bool is_more_than_model(const Selection& selection);

// The key's path in the source; the key itself if the metadata has no paths.
std::vector<PathPart> source_path(const Catalog& catalog, const Entry& entry);
// Components joined with dots, as torch joins them.
std::string joined(std::span<const PathPart> path);

// Throw several_models; `paths` are theirs. kWhichDtype: the keys stay, but not all may get the model's dtype.
[[noreturn]] void fail_several(const Catalog& catalog, const std::vector<std::string>& paths);
enum class Doubt : uint8_t { kWhichKeys, kWhichDtype };
[[noreturn]] void fail_doubtful(const Catalog& catalog, const TrainingState& state, Doubt doubt);

// Throws keys_collide, which names all of them. kNo: only tensors are written.
enum class Objects : uint8_t { kNo, kYes };
void refuse_collisions(const Catalog& catalog, const std::vector<Entry>& entries, Objects objects = Objects::kYes);

// Throws key_missing.
[[noreturn]] void refuse_unmatched(const Catalog& catalog, const UnmatchedRule& rule, std::string hint);

bool matches(const KeyRule& rule, const std::string& key);
// Rules in which every glob is what it means among these keys.
std::vector<KeyRule> meant_rules(std::vector<KeyRule> rules, const KnownKeys& keys);

}  // namespace dcp
