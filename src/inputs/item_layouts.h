// What metadata.pkl says of tensors, against what the files of the ranks hold of them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "inputs/item_metadata.h"
#include "inputs/rank_files.h"
#include "inputs/rank_shards.h"

namespace dcp {

class ItemLayouts {
 public:
  // `metadata` must outlive this.
  explicit ItemLayouts(const ItemMetadata& metadata) : metadata_(metadata) {}

  bool has(const RankFile& file, std::string_view key) const { return group(file, key) != nullptr; }
  // Whether each rank has all of it.
  bool is_replicated(const RankFile& file, std::string_view key) const;
  const ListedTensor* find(const RankFile& file, std::string_view key) const;

  // What a rank's file holds of a tensor.
  struct Held {
    std::vector<int64_t> sizes;
    std::optional<DType> dtype;   // nullopt: it will be known later
    const LocalShard* dtensor{};  // null: a tensor that does not say what it is a part of
    const RankMesh* mesh{};       // of the DTensor; null: it is not known
  };
  // nullopt: the metadata does not list the tensor for this rank. Without boxes: the file contradicts it, and the tensor is disputed.
  std::optional<TensorPart> part(const RankFile& file, std::string_view key, const Held& held, const Place& place);
  void check_dtype(const RankFile& file, std::string_view key, DType dtype, const Place& place);
  // After all of a file: whether each tensor that is listed for the rank has been met.
  void check_met(const RankFile& file, const std::vector<std::string>& keys, const Place& place);
  // After all of all files: of what is replicated, a copy is enough.
  void check_all_met();
  // A tensor that is not listed for the rank, in a file of nothing but tensors: the package lists those plain ones that rank 0 has, of which
  // each rank has the whole.
  void note_unlisted(std::string_view key, const Place& place);
  // A note of them; nullopt: there are none.
  std::optional<Problem> unlisted() const;
  bool lists(const RankFile& file) const;  // a tensor of the file's item
  bool of_several_ranks() const { return metadata_.world_size > 1; }

  // Tensors of which a file says something else; none of their boxes is to be trusted.
  const std::map<std::string, Problem, std::less<>>& disputed() const { return disputed_; }

 private:
  const ItemLayout* group(const RankFile& file, std::string_view key) const;
  std::string contradiction(const ItemLayout& layout, const LocalShard& shard, uint32_t rank) const;
  bool is_mesh(uint32_t number, const RankMesh& mesh);
  void dispute(ProblemId id, std::string_view key, const Place& place, std::string got, std::string expected);

  const ItemMetadata& metadata_;
  std::map<std::string, Problem, std::less<>> disputed_;
  std::set<std::string, std::less<>> met_;                        // what some file has
  std::map<std::string, Place, std::less<>> unlisted_;            // and where it is first
  std::map<std::string, Place> lacking_;                          // replicated, and not in the file at this place
  std::map<std::pair<uint32_t, const RankMesh*>, bool> is_mesh_;  // a mesh of the metadata, and a DTensor's
};

}  // namespace dcp
