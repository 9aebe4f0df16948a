// What the files of all ranks say about sharded tensors, and the boxes that follow from it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "inputs/dtensor.h"
#include "inputs/rank_files.h"
#include "inputs/torch_reader.h"

namespace dcp {

// Files are identified by number. If a rank contradicts the others, has another rank's place in the mesh, or lacks a key, that is a finding
// about the key, which then has no boxes.
class RankShards {
 public:
  RankShards(const std::string& path, const std::vector<RankFile>& files, std::vector<Problem>& findings)
      : path_(path), files_(files), findings_(findings) {}

  // Call in the order of the files.
  void meet(size_t file, std::string_view key, const LocalShard& shard);
  // Call after the last meet().
  void check();
  bool has(std::string_view key) const { return of_key_.contains(key); }
  // Throws torch_rank_part.
  TensorPart part(std::string_view key, const LocalShard& shard);

 private:
  struct Sharded {
    std::vector<Placement> placements;
    std::vector<int64_t> sizes;
    Mesh mesh;
    RankBoxes boxes;
    std::vector<size_t> files, outside;  // that have it, sorted: those in the mesh, and others
    std::vector<uint32_t> coordinates;   // of each of `files`
    bool is_disputed = false;

    std::span<const uint32_t> coordinate(size_t n) const { return {coordinates.data() + n * mesh.sizes.size(), mesh.sizes.size()}; }
  };
  using Places = std::vector<std::vector<size_t>>;

  Places places(const Sharded& s) const;
  bool explain(std::string_view key, Sharded& s);
  const RankFile* lacking(const Sharded& s) const;
  void place(std::string_view key, Sharded& s) const;
  void dispute(Sharded& s, Problem why);

  const std::string& path_;
  const std::vector<RankFile>& files_;
  std::vector<Problem>& findings_;
  std::map<std::string, Sharded, std::less<>> of_key_;
};

}  // namespace dcp
