// One of the two checkpoints being compared: its final keys, and what they hold. Objects that an older torch saved as one are split as a
// newer torch would have saved them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/prepare.h"
#include "exec/compare.h"
#include "exec/object_digest.h"
#include "items/inner_tensors.h"
#include "select/select.h"

namespace dcp {

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

class DiffSide {
 public:
  DiffSide(const ReadRequest& request, World& world) : request_(request), world_(world), prepared_(request, world) {}

  const OpenedCatalog& open() { return prepared_.open(); }
  // Rules also apply inside objects; that is done once they are split. Throws what select_keys throws.
  Selection try_select(SelectOptions options);
  void take(Selection selection) { selection_ = std::move(selection); }
  // Applies the map if the names are those of its left side; otherwise keeps the names. Throws map_*.
  void map(const SelectOptions& options, const MapRequest& request);
  bool is_mapped() const { return prepared_.map().has_value(); }
  // With a map, rules that match no key of the side refer to the names that the map makes.
  std::vector<KeyRule> rules_of_its_own(std::vector<KeyRule> rules) const;
  // Whether a key of its own, or one that the map makes, matches the rule.
  bool has(const KeyRule& rule) const;
  bool makes(const KeyRule& rule) const;
  // Filters what the map makes by the rules.
  void keep_made(const std::vector<KeyRule>& rules);

  // Resolves what both sides may have: all objects, and the tensors that `other` may have too.
  void resolve(const SelectOptions& options, const DiffSide& other, bool keys_only);
  // By key.
  std::vector<DiffKey> keys();

  bool holds_objects() const;
  bool drops_empty() const { return catalog().traits().has_metadata; }
  const Catalog& catalog() const { return prepared_.catalog(); }
  // Whether this names something inside one of its objects, which may be a dict.
  bool may_lie_in_object(std::string_view word) const;
  bool has_key(const std::function<bool(std::string_view)>& fits) const;
  Preparation& preparation() { return prepared_; }
  // The source that holds tensors of this kind.
  Source of(DiffKey::Kind kind) {
    return kind == DiffKey::Kind::kTensor ? prepared_.source() : Source{inner_->catalog(), inner_->resolved(), prepared_.source().files};
  }

 private:
  bool is_state(const Entry& entry) const;
  void add_tensor(const Entry& entry, std::vector<DiffKey>& keys);
  void add_objects(ItemId item, const std::vector<const Entry*>& entries, std::vector<DiffKey>& keys);
  DiffKey known_of(const OpenObject& object, ObjectDigester& digester, const StateDict::Leaf& leaf, const std::string& key);

  const ReadRequest& request_;
  World& world_;
  Preparation prepared_;
  Selection selection_;
  std::vector<KeyRule> rules_;
  Limits limits_;
  std::unique_ptr<InnerTensors> inner_;
  uint64_t repeated_ = 0;  // keys inside objects that several keys share, once for each of these but the first
};

}  // namespace dcp
