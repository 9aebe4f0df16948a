#include "inputs/item_layouts.h"

#include <algorithm>

#include "base/text.h"
#include "catalog/cover.h"
#include "catalog/placements.h"
#include "inputs/rank_shards.h"

namespace dcp {
namespace {

std::string words(const std::vector<Placement>& placements) {
  std::string text;
  for (const Placement& p : placements) {
    if (!text.empty()) text += ", ";
    if (p.kind == Placement::Kind::kReplicate) text += "Replicate";
    else text += (p.kind == Placement::Kind::kShard ? "Shard(" : "StridedShard(") + std::to_string(p.dim) + ")";
  }
  return "(" + text + ")";
}

RankMesh rank_mesh(const ItemMesh& mesh) {
  RankMesh out{.sizes = mesh.mesh.sizes, .ranks = std::vector<uint32_t>(mesh.position_of.size())};
  for (const auto& [rank, position] : mesh.position_of) out.ranks[position] = rank;
  return out;
}

}  // namespace

const ListedTensor* ItemLayouts::find(const RankFile& file, std::string_view key) const {
  const auto item = file.under.empty() ? metadata_.items.end() : metadata_.items.find(file.under.front());
  if (item == metadata_.items.end()) return nullptr;
  const auto found = item->second.tensors.find(key);
  return found == item->second.tensors.end() ? nullptr : &found->second;
}

bool ItemLayouts::is_replicated(const RankFile& file, std::string_view key) const {
  const ItemLayout* const layout = group(file, key);
  return layout != nullptr && layout->is_replicated();
}

const ItemLayout* ItemLayouts::group(const RankFile& file, std::string_view key) const {
  const ListedTensor* const tensor = find(file, key);
  if (tensor == nullptr) return nullptr;
  const auto found = std::ranges::find_if(tensor->groups, [&](const ItemLayout& g) { return metadata_.has_rank(g, file.rank); });
  return found == tensor->groups.end() ? nullptr : &*found;
}

bool ItemLayouts::is_mesh(uint32_t number, const RankMesh& mesh) {
  const auto [known, fresh] = is_mesh_.try_emplace({number, &mesh});
  if (fresh) known->second = rank_mesh(metadata_.meshes[number]) == mesh;
  return known->second;
}

// A mesh has a place for each of its ranks; a rank outside it holds nothing.
std::optional<TensorPart> ItemLayouts::part(const RankFile& file, std::string_view key, const Held& held, const Place& place) {
  const ItemLayout* const layout = group(file, key);
  if (layout == nullptr) return std::nullopt;
  TensorPart part{.local = {}, .local_sizes = {}, .sizes = layout->sizes, .boxes = {}};
  if (held.dtype) check_dtype(file, key, *held.dtype, place);
  if (held.dtensor != nullptr) {
    if (const std::string other = contradiction(*layout, *held.dtensor, file.rank); !other.empty()) {
      dispute(ProblemId::ranks_disagree, key, place, "a DTensor of " + other,
              words(layout->placements) + " of " + shape_text(layout->sizes));
      return part;
    }
    if (held.mesh != nullptr && !is_mesh(layout->mesh, *held.mesh)) {
      dispute(ProblemId::ranks_disagree, key, place, "a DTensor on the mesh " + mesh_text(*held.mesh),
              mesh_text(rank_mesh(metadata_.meshes[layout->mesh])) + ", as the metadata has it");
      return part;
    }
  }
  if (layout->mesh == UINT32_MAX) {
    for (const TensorPart::Box& box : layout->boxes)
      for (size_t d = 0; d < box.sizes.size(); ++d)
        if (held.sizes.size() != box.sizes.size() || box.local_offsets[d] + box.sizes[d] > held.sizes[d]) {
          dispute(ProblemId::chunk_shape_differs, key, place, shape_text(held.sizes), slice_text(box.local_offsets, box.sizes) + " in it");
          return part;
        }
    part.local_sizes = held.sizes;
    part.boxes = layout->boxes;
    return part;
  }
  const ItemMesh& mesh = metadata_.meshes[layout->mesh];
  const auto position = mesh.position_of.find(file.rank);
  if (position == mesh.position_of.end()) return part;
  RankBoxes boxes;
  place_rank(mesh.mesh, layout->placements, layout->sizes, position->second, boxes);
  set_boxes(part, boxes, 0, boxes.rank_of.size());
  if (part.local_sizes == held.sizes) return part;
  dispute(ProblemId::chunk_shape_differs, key, place, shape_text(held.sizes), shape_text(part.local_sizes));
  part.boxes.clear();
  return part;
}

void ItemLayouts::check_dtype(const RankFile& file, std::string_view key, DType dtype, const Place& place) {
  const ItemLayout* const layout = group(file, key);
  if (layout != nullptr && layout->dtype != dtype)
    dispute(ProblemId::shards_disagree, key, place, std::string(facts_of(dtype).name), std::string(facts_of(layout->dtype).name));
}

// What the DTensor says, where it is not what the metadata does.
std::string ItemLayouts::contradiction(const ItemLayout& layout, const LocalShard& shard, uint32_t rank) const {
  if (layout.mesh == UINT32_MAX) return words(shard.placements) + " where the metadata has boxes";
  if (shard.placements != layout.placements || shard.sizes != layout.sizes)
    return words(shard.placements) + " of " + shape_text(shard.sizes);
  const ItemMesh& mesh = metadata_.meshes[layout.mesh];
  const auto position = mesh.position_of.find(rank);
  if (shard.coordinate.empty() != (position == mesh.position_of.end())) return words(shard.placements) + " of another mesh";
  uint64_t own = 0;
  for (size_t d = 0; d < shard.coordinate.size(); ++d) {
    if (shard.coordinate[d] >= mesh.mesh.sizes[d]) return words(shard.placements) + " of another mesh";
    own = own * mesh.mesh.sizes[d] + shard.coordinate[d];
  }
  return shard.coordinate.empty() || own == position->second ? "" : words(shard.placements) + " at another place of the mesh";
}

// A value that the metadata sees through may be one object for dcpctl: the tuple that a tensor is in.
void ItemLayouts::check_met(const RankFile& file, const std::vector<std::string>& keys, const Place& place) {
  const auto item = file.under.empty() ? metadata_.items.end() : metadata_.items.find(file.under.front());
  if (item == metadata_.items.end()) return;
  std::vector<std::string_view> sorted(keys.begin(), keys.end());
  std::ranges::sort(sorted);
  const auto is_met = [&](std::string_view key) {
    for (size_t end = key.size(); end != key.npos && end > 0; end = key.rfind('.', end - 1))
      if (std::ranges::binary_search(sorted, key.substr(0, end))) return true;
    return false;
  };
  for (const auto& [key, tensor] : item->second.tensors)
    if (const ItemLayout* const layout = group(file, key); layout != nullptr) {
      if (is_met(key)) met_.insert(key);
      else if (layout->is_replicated()) lacking_.emplace(key, place);
      else dispute(ProblemId::rank_lacks_key, key, place, "", shape_text(layout->sizes));
    }
}

void ItemLayouts::check_all_met() {
  for (const auto& [key, place] : lacking_)
    if (!met_.contains(key)) dispute(ProblemId::rank_lacks_key, key, place, "", "");
}

void ItemLayouts::note_unlisted(std::string_view key, const Place& place) { unlisted_.emplace(key, place); }

std::optional<Problem> ItemLayouts::unlisted() const {
  if (unlisted_.empty()) return std::nullopt;
  const auto& [key, place] = *unlisted_.begin();
  return make_finding(ProblemId::tensors_unlisted, Severity::kNote, {.path = place.path},
                      shortened(key) + (unlisted_.size() > 1 ? " and " + std::to_string(unlisted_.size() - 1) + " more" : ""));
}

bool ItemLayouts::lists(const RankFile& file) const {
  const auto item = file.under.empty() ? metadata_.items.end() : metadata_.items.find(file.under.front());
  return item != metadata_.items.end() && !item->second.tensors.empty();
}

void ItemLayouts::dispute(ProblemId id, std::string_view key, const Place& place, std::string got, std::string expected) {
  if (disputed_.contains(key)) return;
  Place at = place;
  at.tensor = key;
  at.offset.reset();
  at.member.clear();
  disputed_.emplace(key, make_finding(id, Severity::kDamage, std::move(at), std::move(got), std::move(expected)));
}

}  // namespace dcp
