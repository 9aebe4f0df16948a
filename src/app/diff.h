// Whether two checkpoints are equal, and where they differ. Compares the state dict that torch would load: sharding, format, and how
// objects are split or joined do not count.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/requests.h"
#include "app/world.h"
#include "catalog/kind.h"
#include "kernels/compare.h"
#include "select/select.h"

namespace dcp {

struct DiffRequest {
  ReadRequest a, b;
  SelectOptions select;  // for both; a root applies to a side that has it
  MapRequest map;        // applies to a side with the names of its left side
  Tolerance tolerance;
  std::optional<DType> compare_as;  // floating-point tensors are converted to it first, but not what is quantized
  bool raw = false;                 // that, too
  bool keys_only = false;           // keys, dtypes, shapes, objects: no tensor is read
};

// What a key holds on one side.
struct HeldValue {
  bool is_tensor = false;
  std::string dtype;           // of a tensor
  std::vector<int64_t> shape;  // of a tensor
  std::string text;            // of an object: "3", "{'lr': 0.1}"
};

struct KeyDifference {
  enum class Kind : uint8_t { kOnlyA, kOnlyB, kKind, kDType, kShape, kValues, kObject };
  Kind kind = Kind::kValues;
  std::string key;
  std::optional<HeldValue> a, b;
  bool is_state = false;  // what a trainer keeps beside the model
  // Of kValues:
  DType dtype{};  // that both were converted to
  uint64_t elements = 0;
  ElementDifferences values;
};

struct DiffResult {
  struct Side {
    std::string checkpoint;  // what was read: a step of a run
    std::optional<CheckpointKind> kind;
    std::vector<std::string> not_held;  // its objects that the other side's format cannot hold
    std::vector<std::string> gone;      // empty dicts, and None in lists, which the other side, a DCP folder, does not store
  };
  Side a, b;
  std::vector<UnmatchedRule> unmatched;     // rules that match no key of either side
  std::vector<KeyDifference> differences;   // by key
  std::vector<std::string> common;          // keys on both sides, by name
  uint64_t tensors = 0, objects = 0;        // on both sides
  uint64_t state_of_both = 0;               // of these, keys that a trainer keeps beside the model
  uint64_t elements = 0, tensor_bytes = 0;  // whose values were compared, of one side
  ElementDifferences values;                // sums over all of them: the counts
  uint64_t bytes_read = 0, planned_memory = 0, nanoseconds = 0;

  bool equal() const { return differences.empty(); }
  // The second has the first's model, and nothing of what that keeps beside it.
  bool model_equal() const;
  uint64_t count(KeyDifference::Kind kind) const;
};

// Filled as far as it got. Throws what opening, selecting and reading either side throws; crc_mismatch for damaged bytes.
void diff(const DiffRequest& request, World& world, DiffResult& result);

}  // namespace dcp
