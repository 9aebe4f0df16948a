#include "inputs/rank_shards.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "catalog/placements.h"

namespace dcp {
namespace {

class DTensorReader {
 public:
  explicit DTensorReader(const PickleGraph& graph) : graph_(graph), m_(graph.machine()) {}

  std::optional<LocalShard> read(const Value& v) const {
    if (v.kind != Kind::kObject || graph_.global_of(v) != "torch._tensor._rebuild_from_type_v2") return {};
    const Value arguments = m_.arguments_of(v);
    if (arguments.kind != Kind::kTuple || arguments.n != 4) return {};
    const Value made_with = m_.element(arguments, 2), state = m_.element(arguments, 3);
    LocalShard shard;
    if (made_with.kind != Kind::kTuple || made_with.n < 3 || !numbers(m_.element(made_with, 2), shard.sizes)) return {};
    shard.local = attribute(state, "_local_tensor");
    if (const Value made = shard.local.kind == Kind::kObject ? m_.arguments_of(shard.local) : Value{};
        made.kind == Kind::kTuple && made.n > 2)
      numbers(m_.element(made, 2), shard.local_sizes);
    const Value spec = state_of(attribute(state, "_spec"));
    if (shard.local.kind != Kind::kObject || !placements(attribute(spec, "placements"), shard.placements)) return {};
    const Value mesh = state_of(attribute(spec, "mesh"));
    if (!coordinate(attribute(mesh, "_coordinate_on_dim"), shard)) return {};
    shard.world_size = world_of(mesh);
    return shard;
  }

  std::optional<OffsetShard> read_sharded(const Value& v) const {
    if (v.kind != Kind::kObject || graph_.global_of(v) != "torch._tensor._rebuild_from_type_v2") return {};
    const Value arguments = m_.arguments_of(v);
    if (arguments.kind != Kind::kTuple || arguments.n != 4) return {};
    const Value made_with = m_.element(arguments, 2), state = m_.element(arguments, 3);
    OffsetShard out;
    if (made_with.kind != Kind::kTuple || made_with.n < 3 || !numbers(m_.element(made_with, 2), out.sizes)) return {};
    if (state.kind != Kind::kTuple || state.n < 3) return {};
    const Value shards = m_.element(state, 0), group = state_of(m_.element(state, 2));
    if (const Value world = attribute(group, "global_world_size"); world.kind == Kind::kInt && world.integer() > 0)
      out.world_size = world.payload;
    Value shard;
    if (shards.kind != Kind::kList || m_.count(shards) > 1) return {};
    for (auto it = m_.items(shards); it.next(shard);) {
      const Value parts = state_of(shard), where = state_of(attribute(parts, "metadata"));
      out.local = attribute(parts, "tensor");
      if (out.local.kind != Kind::kObject || !numbers(attribute(where, "shard_offsets"), out.offsets) ||
          !numbers(attribute(where, "shard_sizes"), out.local_sizes) || out.offsets.size() != out.sizes.size() ||
          out.local_sizes.size() != out.sizes.size())
        return {};
    }
    return out;
  }

 private:
  Value state_of(const Value& object) const { return object.kind == Kind::kObject ? m_.state_of(object) : Value{}; }

  // An attribute in an object's state, which is a dict, or a pair of dicts of attributes and slots (__reduce_ex__). kUnset: there is none.
  Value attribute(const Value& state, std::string_view name) const {
    if (state.kind == Kind::kTuple && state.n == 2) {
      const Value found = attribute(m_.element(state, 1), name);
      return found.kind != Kind::kUnset || m_.element(state, 0).kind != Kind::kDict ? found : attribute(m_.element(state, 0), name);
    }
    if (state.kind != Kind::kDict) return {};
    Value key, value, found;
    for (auto it = m_.items(state); it.next(key) && it.next(value);)
      if (m_.is_text(key, name)) found = value;
    return found;
  }

  bool numbers(const Value& tuple, std::vector<int64_t>& out) const {
    if (tuple.kind != Kind::kTuple && tuple.kind != Kind::kList) return false;
    Value n;
    for (auto it = m_.items(tuple); it.next(n);) {
      if (n.kind != Kind::kInt || n.integer() < 0 || out.size() >= kMaxDims) return false;
      out.push_back(n.integer());
    }
    return true;
  }

  uint64_t world_of(const Value& mesh) const {
    uint64_t world = 0;
    Value rank;
    const Value ranks = attribute(mesh, "_flatten_rank_map"), tensor = attribute(mesh, "mesh");
    for (auto it = m_.items(ranks); ranks.kind == Kind::kTuple && it.next(rank);)
      if (rank.kind == Kind::kInt && rank.integer() >= 0) world = std::max(world, rank.payload + 1);
    if (std::vector<int64_t> sizes; world == 0 && tensor.kind == Kind::kObject) {
      const Value made = m_.arguments_of(tensor);
      if (made.kind != Kind::kTuple || made.n < 3 || !numbers(m_.element(made, 2), sizes)) return 0;
      world = 1;
      for (const int64_t n : sizes) world = std::min(world * static_cast<uint64_t>(n), uint64_t{1} << 31);
    }
    return world;
  }

  bool coordinate(const Value& v, LocalShard& shard) const {
    if (v.kind == Kind::kNil) return true;
    std::vector<int64_t> of_dim;
    if (!numbers(v, of_dim) || of_dim.size() != shard.placements.size()) return false;
    for (const int64_t n : of_dim) {
      if (n >= static_cast<int64_t>(kMaxRanks)) return false;
      shard.coordinate.push_back(static_cast<uint32_t>(n));
    }
    return true;
  }

  bool placements(const Value& list, std::vector<Placement>& out) const {
    if (list.kind != Kind::kTuple && list.kind != Kind::kList) return false;
    Value v;
    for (auto it = m_.items(list); it.next(v);) {
      if (v.kind != Kind::kObject || out.size() >= kMaxDims) return false;
      const std::string cls = graph_.global_of(v);
      Placement p;
      if (cls.ends_with(".Shard")) p.kind = Placement::Kind::kShard;
      else if (cls.ends_with("._StridedShard")) p.kind = Placement::Kind::kStrided;
      else if (!cls.ends_with(".Replicate")) return false;  // Partial: the sum over the ranks is the tensor
      if (p.kind != Placement::Kind::kReplicate) {
        Value dim = attribute(m_.state_of(v), "dim");
        if (const Value made_with = m_.arguments_of(v); dim.kind == Kind::kUnset && made_with.kind == Kind::kTuple && made_with.n > 0)
          dim = m_.element(made_with, 0);
        if (dim.kind != Kind::kInt || dim.integer() < 0 || dim.integer() >= static_cast<int64_t>(kMaxDims)) return false;
        p.dim = dim.integer();
      }
      out.push_back(p);
    }
    return true;
  }

  static constexpr size_t kMaxDims = 64;  // as torch

  const PickleGraph& graph_;
  const PickleMachine& m_;
};

}  // namespace

std::optional<LocalShard> read_dtensor(const PickleGraph& graph, const StateDict::Leaf& leaf) {
  if (!leaf.tensor.cls.ends_with(".DTensor")) return {};
  return DTensorReader(graph).read(leaf.value);
}

void set_boxes(TensorPart& part, const RankBoxes& boxes, size_t first, size_t last) {
  const size_t dims = part.sizes.size();
  HeldBoxes held = join_boxes(boxes, first, last, dims);
  part.local_sizes = std::move(held.sizes);
  for (size_t n = first; n < last; ++n) {
    const BoxView box = boxes.box(n, dims);
    const auto local = held.offsets.begin() + static_cast<std::ptrdiff_t>((n - first) * dims);
    part.boxes.push_back({.offsets = {box.offsets.begin(), box.offsets.end()},
                          .sizes = {box.sizes.begin(), box.sizes.end()},
                          .local_offsets = {local, local + static_cast<std::ptrdiff_t>(dims)}});
  }
}

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

void RankShards::lose(const std::vector<std::string>& under) {
  for (auto& [key, s] : of_key_)
    if (!s.files.empty() && files_[s.files.front()].under == under) s.is_disputed = true;
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
  set_boxes(part, s.boxes, static_cast<size_t>(first - s.boxes.rank_of.begin()), static_cast<size_t>(last - s.boxes.rank_of.begin()));
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

std::optional<OffsetShard> read_sharded_tensor(const PickleGraph& graph, const StateDict::Leaf& leaf) {
  if (!leaf.tensor.cls.ends_with(".ShardedTensor")) return {};
  return DTensorReader(graph).read_sharded(leaf.value);
}

}  // namespace dcp
