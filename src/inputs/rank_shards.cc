#include "inputs/rank_shards.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dcp {

void RankShards::meet(size_t file, std::string_view key, const LocalShard& shard) {
  Sharded& s = of_key_[std::string(key)];
  if (s.placements.empty()) s.placements = shard.placements, s.sizes = shard.sizes, s.mesh.sizes.resize(shard.placements.size());
  const auto disagree = [&](std::string what) {
    dispute(s, make_problem(ProblemId::ranks_disagree, {.path = path_, .tensor = std::string(key)}, std::move(what)));
  };
  if (s.placements != shard.placements) return disagree("two lists of placements");
  if (s.sizes != shard.sizes) return disagree("two shapes");
  if (shard.coordinate.empty()) return s.outside.push_back(file);
  for (size_t d = 0; d < shard.coordinate.size(); ++d) s.mesh.sizes[d] = std::max(s.mesh.sizes[d], shard.coordinate[d] + 1);
  s.files.push_back(file);
  s.coordinates.insert(s.coordinates.end(), shard.coordinate.begin(), shard.coordinate.end());
}

void RankShards::check() {
  for (auto& [key, s] : of_key_)
    if (!s.is_disputed && places(s).size() < s.mesh.ranks()) explain(key, s);
}

TensorPart RankShards::part(std::string_view key, const LocalShard& shard) {
  Sharded& s = of_key_.at(std::string(key));
  TensorPart part{.local = shard.local, .local_sizes = {}, .sizes = shard.sizes, .boxes = {}};
  if (shard.coordinate.empty() || s.is_disputed) return part;
  place(key, s);
  uint32_t rank = 0;
  for (size_t d = 0; d < shard.coordinate.size(); ++d) rank = rank * s.mesh.sizes[d] + shard.coordinate[d];
  const auto [first, last] = std::ranges::equal_range(s.boxes.rank_of, rank);
  const size_t dims = s.sizes.size();
  // If the rank has several boxes, its tensor has the runs of each dim one after the other.
  std::vector<std::map<int64_t, int64_t>> runs(dims);  // per dim: from offset to size, and later to the run's beginning in `local`
  for (auto it = first; it != last; ++it) {
    const BoxView box = s.boxes.box(static_cast<size_t>(it - s.boxes.rank_of.begin()), dims);
    for (size_t d = 0; d < dims; ++d) runs[d][box.offsets[d]] = box.sizes[d];
  }
  for (size_t d = 0; d < dims; ++d) {
    int64_t begin = 0;
    for (auto& [offset, size] : runs[d]) begin += std::exchange(size, begin);
    part.local_sizes.push_back(begin);
  }
  for (auto it = first; it != last; ++it) {
    const BoxView box = s.boxes.box(static_cast<size_t>(it - s.boxes.rank_of.begin()), dims);
    TensorPart::Box b{
        .offsets = {box.offsets.begin(), box.offsets.end()}, .sizes = {box.sizes.begin(), box.sizes.end()}, .local_offsets = {}};
    for (size_t d = 0; d < dims; ++d) b.local_offsets.push_back(runs[d].at(box.offsets[d]));
    part.boxes.push_back(std::move(b));
  }
  // If the last ranks are missing, the mesh seems smaller than it is, and each rank would get more than it has.
  if (!part.boxes.empty() && shard.local_sizes != part.local_sizes && explain(key, s)) part.boxes.clear();
  return part;
}

// The ranks at each place of the mesh, as positions in `files`.
RankShards::Places RankShards::places(const Sharded& s) const {
  std::vector<size_t> order(s.files.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return std::ranges::lexicographical_compare(s.coordinate(a), s.coordinate(b)); });
  Places at;
  for (const size_t n : order) {
    if (at.empty() || !std::ranges::equal(s.coordinate(at.back().front()), s.coordinate(n))) at.emplace_back();
    at.back().push_back(n);
  }
  return at;
}

// The first file of the same part that lacks the key.
const RankFile* RankShards::lacking(const Sharded& s) const {
  for (size_t f = 0; f < files_.size(); ++f) {
    const bool beside = !s.files.empty() && files_[f].under == files_[s.files.front()].under;
    if (beside && !std::ranges::binary_search(s.files, f) && !std::ranges::binary_search(s.outside, f)) return &files_[f];
  }
  return nullptr;
}

// Reports why the ranks' boxes are not the whole tensor; returns false if none of the files shows it. Several ranks may be at one place, in
// meshes that are parts of a larger one, but then the same number is at each.
bool RankShards::explain(std::string_view key, Sharded& s) {
  const Places at = places(s);
  const auto most = std::ranges::max_element(at, {}, &std::vector<size_t>::size);
  const RankFile* const without = lacking(s);
  const auto place_in = [&](const RankFile& file) { return Place{.path = path_ + "/" + file.name, .tensor = std::string(key)}; };
  const bool uneven = std::ranges::any_of(at, [&](const auto& ranks) { return ranks.size() != most->size(); });
  if (most != at.end() && most->size() > 1 && (uneven || without == nullptr)) {
    std::string where;
    for (const uint32_t c : s.coordinate(most->front())) where += (where.empty() ? "" : ", ") + std::to_string(c);
    dispute(s, make_problem(ProblemId::rank_place_taken, place_in(files_[s.files[(*most)[1]]]),
                            "[" + where + "], where " + files_[s.files[most->front()]].name + " is", "a place of its own"));
  } else if (without != nullptr) {
    dispute(s, make_problem(ProblemId::rank_lacks_key, place_in(*without)));
  }
  return s.is_disputed;
}

void RankShards::place(std::string_view key, Sharded& s) const {
  if (!s.boxes.rank_of.empty()) return;
  if (s.mesh.ranks() > kMaxRanks || !place_ranks(s.mesh, s.placements, s.sizes, s.boxes))
    fail(ProblemId::torch_rank_part, {.path = path_, .tensor = std::string(key)}, "placements that its shape does not have");
}

void RankShards::dispute(Sharded& s, Problem why) {
  if (std::exchange(s.is_disputed, true)) return;
  why.severity = Severity::kDamage;
  findings_.push_back(std::move(why));
}

}  // namespace dcp
