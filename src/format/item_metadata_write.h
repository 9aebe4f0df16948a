// Writer of metadata.pkl, version 2.0, as torch_checkpointing 0.1 reads it (its form: inputs/item_metadata.h): a pickle of dicts, lists, tuples,
// texts, numbers and None. The same calls give the same bytes. Meshes, lists of ranks and placements that repeat go through the memo.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/dtype.h"
#include "pickle/writer.h"

namespace dcp {

class ItemMetadataWriter {
 public:
  // The ranks are numbered along it, its last dim fastest.
  struct Mesh {
    std::string device_type;
    std::vector<uint32_t> sizes;
    std::vector<std::string> names;  // none, or one per size
    auto operator<=>(const Mesh&) const = default;
  };
  struct Placement {
    int64_t dim = -1;           // -1: replicated
    uint64_t split_factor = 0;  // 0: Shard, else StridedShard
    auto operator<=>(const Placement&) const = default;
  };
  struct Tensor {
    std::string_view path;  // JSON text of a list of names and positions
    DType dtype{};
    std::span<const int64_t> sizes;
    const Mesh& mesh;
    std::vector<Placement> placements;  // one per mesh dim
  };

  // Appends to `out`, which must outlive the writer.
  ItemMetadataWriter(std::string& out, uint32_t world_size);

  // For each item: item(), tensor() for each of its tensors, end_item(). Then end().
  void item(std::string_view name);
  void tensor(const Tensor& tensor);
  // `file_of` gives the name of each rank's safetensors file; nullptr: they are in ITEM_RANK.pt.
  void end_item(const std::function<std::string(uint32_t rank)>& file_of);
  void end();

 private:
  void key(std::string_view text);
  void numbers(std::span<const int64_t> values);
  void mesh(const Mesh& mesh);
  void ranks(uint64_t count);
  void placements(const std::vector<Placement>& all);
  template <class Map, class Key, class Write>
  void once(Map& slots, const Key& key, const Write& write);
  void next(uint64_t& n);

  const uint32_t world_size_;
  PickleWriter out_;
  uint64_t items_ = 0, tensors_ = 0;
  std::map<std::string, uint64_t, std::less<>> texts_;  // to slots of the memo
  std::map<Mesh, uint64_t> meshes_;
  std::map<uint64_t, uint64_t> ranks_;
  std::map<std::vector<Placement>, uint64_t> placements_;
};

}  // namespace dcp
