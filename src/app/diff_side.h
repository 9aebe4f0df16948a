// One of the two checkpoints that are compared: which of its keys, and what these hold. Objects that an older torch saved as one are split as a
// newer torch would have saved them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/stages.h"
#include "exec/object_digest.h"
#include "items/inner_tensors.h"

namespace dcp {

struct DiffSide {
  Opened opened;
  Selected selected;
  std::vector<KeyRule> rules;  // of the selection: they apply inside objects, too, once these are split

  const Catalog& catalog() const { return opened.catalog(); }
  bool is_mapped() const { return selected.map.has_value(); }
  void select(const SelectOptions& options);  // see select_on()
  // Whether a key of its own, something in one of its objects, or a key that the map makes matches the rule.
  bool has(const KeyRule& rule) const;
  bool makes(const KeyRule& rule) const;
};

// Globs as they are meant among the keys of both sides. Inside an object there may be a key of that name, or a dict.
SelectOptions meant_on(SelectOptions options, const DiffSide& a, const DiffSide& b);
// Keys and a root that it lacks are told in Selection::lacks. Where names have no components, a root is what they begin with.
Selection select_on(const DiffSide& side, SelectOptions options);
// Applies the map if the names are those of its left side; otherwise keeps the names. Throws map_*.
void map_side(DiffSide& side, const SelectOptions& options, const MapRequest& request, World& world);
// Filters what the map makes by the rules.
void keep_made(DiffSide& side, const std::vector<KeyRule>& rules);
// Resolves all its objects, and the tensors that `other` may have, too.
Ready resolve_side(DiffSide& side, const DiffSide& other, const SelectOptions& options, bool keys_only, World& world);

// A key of the state dict that torch would load.
struct DiffKey {
  enum class Kind : uint8_t { kTensor, kInnerTensor, kObject };
  std::string key;
  Kind kind = Kind::kObject;
  TensorId tensor = 0;       // of the catalog, or of the tensors inside objects
  ObjectDigest digest{};     // of an object
  std::string text{};        // the object as a short text
  bool is_state = false;     // what a trainer keeps beside the model
  bool may_be_gone = false;  // an empty dict, or None in a list, which a DCP folder does not store
};

// What a side holds, by key.
class HeldKeys {
 public:
  HeldKeys(DiffSide side, Ready ready);
  HeldKeys(const HeldKeys&) = delete;
  HeldKeys& operator=(const HeldKeys&) = delete;

  const DiffSide side;
  const Ready ready;
  std::vector<DiffKey> keys;

  // The source that holds tensors of this kind.
  Source of(DiffKey::Kind kind) const {
    return kind == DiffKey::Kind::kTensor ? ready.source() : Source{inner_.catalog(), inner_.resolved(), *ready.opened.files};
  }
  bool holds_objects() const { return !side.is_mapped() && !ready.catalog().traits().tensors_only; }
  bool drops_empty() const { return ready.catalog().traits().has_metadata; }

 private:
  bool is_state(const Entry& entry) const;
  void add_tensor(const Entry& entry);
  void add_objects(ItemId item, const std::vector<const Entry*>& entries);
  DiffKey known_of(const OpenObject& object, ObjectDigester& digester, const StateDict::Leaf& leaf, const std::string& key);

  const Limits limits_;
  InnerTensors inner_;
  uint64_t repeated_ = 0;  // keys inside objects that several keys share, once for each of these but the first
};

}  // namespace dcp
