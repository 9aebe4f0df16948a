// torch.save files of an output: the pickle of each, and the places of its payloads. Every tensor gets its own storage; byte items and opaque
// tensors are spliced in at their places.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "catalog/placements.h"
#include "items/resolve.h"
#include "pickle/splice.h"
#include "pickle/writer.h"
#include "plan/plan.h"
#include "plan/tree.h"
#include "select/select.h"

namespace dcp {

// A rank's part of a tensor as a DTensor. Its placements name dims from 0.
struct DTensorForm {
  Dims sizes;  // of the whole
  const Mesh& mesh;
  const std::string& device_type;
  const std::vector<Placement>& placements;
  const std::vector<uint64_t>& split_factors;  // one per placement, of those that are strided
  uint32_t rank = 0;
};

// What a file has of a tensor.
struct TensorInFile {
  Dims shape;
  std::vector<uint32_t> regions;  // in the plan, of its elements in ascending order; their places are from its beginning
  std::optional<DTensorForm> dtensor{};
};
using PlaceTensor = std::function<TensorInFile(const Entry&)>;

// Throws blob_big_endian, item_no_record and what splicing throws. The arguments must outlive it.
class TorchFileLayout {
 public:
  struct Options {
    Limits limits;
    bool verify = true;         // check the CRC of copied bytes
    bool notes_unsafe = false;  // note in the plan what torch.load(weights_only=True) refuses
  };
  struct Containers {
    const Tree& tree;
    uint32_t node = 0;  // a dict, a list, or a leaf
    const std::vector<Entry>& entries;
    ListHoles& holes;
  };
  TorchFileLayout(const SourceFacts& source, Options options, Plan& plan);

  void expect(uint64_t pickle_bytes) { pickle_.reserve(pickle_bytes); }  // of the next file; a growing string exists twice
  // Appends a file to the plan.
  void add(std::string name, const Containers& containers, const PlaceTensor& place);
  void add(std::string name, const Entry& value, const PlaceTensor& place);

 private:
  // A storage of the archive, in order of its key: data/0, data/1, ...
  struct Storage {
    ArchivePayload payload;
    uint64_t bytes = 0;
    std::vector<uint32_t> regions = {};
  };
  struct Spliced {
    uint64_t slot = 0;
    bool is_unsafe = false;
    std::string_view key = {};
  };

  void begin(const PlaceTensor& place);
  void leaf(const Entry& e);
  void shared(std::string_view module, std::string_view name);
  void tensor(const Entry& e);
  void plain_tensor(const DTypeFacts& dtype, Dims shape);
  void begin_dtensor(const DTypeFacts& dtype, const DTensorForm& form);
  void end_dtensor(const DTypeFacts& dtype, const DTensorForm& form);
  void mesh(const DTensorForm& form);
  void mesh_layout(const DTensorForm& form, std::vector<int64_t>& coordinate);
  void placement(const Placement& placement, uint64_t split_factor);
  void shard_order(const DTensorForm& form);
  void object(std::string_view module, std::string_view name);
  void numbers(Dims values);
  void splice(const Entry& e);
  bool note_unsafe(const Entry& e, const SpliceResult& result);
  void end(std::string name);

  const Catalog& catalog_;
  const Resolved& resolved_;
  const Options options_;
  Plan& plan_;
  std::set<ItemId> shared_;  // items with several keys

  // of the file that is laid out
  const PlaceTensor* place_ = nullptr;
  std::string pickle_;
  PickleWriter writer_;
  std::map<std::string, uint64_t> memo_;
  std::vector<Storage> storages_;
  std::map<ItemId, Spliced> spliced_;  // those that are written already
};

// Leaves out the values that torch.load(weights_only=True) refuses, and notes them in the plan.
void leave_out_unsafe(const SourceFacts& source, const Limits& limits, std::vector<Entry>& entries, Plan& plan);

// Throws opaque_sharded for a tensor that is not plain and in several chunks.
void refuse_opaque_pieces(const SourceFacts& source, const Selection& selection);

}  // namespace dcp
