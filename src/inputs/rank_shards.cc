#include "inputs/rank_shards.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "catalog/placements.h"

namespace dcp {
namespace {

// Row-major; nullopt: there is no such place.
std::optional<size_t> row_major_place(const std::vector<uint32_t>& sizes, const std::vector<uint32_t>& coordinate) {
  size_t place = 0;
  for (size_t d = 0; d < coordinate.size(); ++d) {
    if (d >= sizes.size() || coordinate[d] >= sizes[d]) return {};
    place = place * sizes[d] + coordinate[d];
  }
  return place;
}

std::string numbers_text(const std::vector<uint32_t>& numbers) {
  constexpr size_t kNamed = 16;
  return "[" + joined_first(numbers, kNamed) + "]";
}

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
    shard.mesh = attribute(spec, "mesh");
    if (!coordinate(attribute(state_of(shard.mesh), "_coordinate_on_dim"), shard)) return {};
    return shard;
  }

  // The mesh of a DTensor of `rank`. nullopt: it is not known.
  std::optional<RankMesh> read_mesh(const LocalShard& shard, uint32_t rank) const {
    const Value mesh = state_of(shard.mesh);
    std::vector<Axis> axes;
    std::vector<int64_t> ranks, sizes;
    if (numbers(attribute(mesh, "_flatten_rank_map"), ranks, kMaxRanks)) {
      if (!read_axes(state_of(attribute(mesh, "_layout")), axes)) return {};
    } else {
      const Value made = state_of_tensor(attribute(mesh, "mesh"));
      if (!numbers(attribute(mesh, "_flatten_mesh_list"), ranks, kMaxRanks) || !numbers(made, sizes)) return {};
      int64_t stride = 1;
      for (size_t d = sizes.size(); d-- > 0; stride *= std::clamp<int64_t>(sizes[d], 1, kMaxRanks)) {
        if (stride > int64_t{kMaxRanks}) return {};
        axes.insert(axes.begin(), {{sizes[d], stride}});
      }
    }
    return axes.size() == shard.coordinate.size() || shard.coordinate.empty() ? mesh_at(axes, ranks, shard.coordinate, rank) : std::nullopt;
  }

  uint64_t world_of(const Value& mesh_object) const {
    const Value mesh = state_of(mesh_object);
    uint64_t world = 0;
    std::vector<int64_t> ranks, sizes;
    if (numbers(attribute(mesh, "_flatten_rank_map"), ranks, SIZE_MAX) || numbers(attribute(mesh, "_flatten_mesh_list"), ranks, SIZE_MAX))
      for (const int64_t rank : ranks) world = std::max(world, static_cast<uint64_t>(rank) + 1);
    if (world > 0 || !numbers(state_of_tensor(attribute(mesh, "mesh")), sizes)) return world;
    world = 1;
    for (const int64_t n : sizes) world = std::min(world * static_cast<uint64_t>(n), uint64_t{1} << 31);
    return world;
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
    if (const Value rank = attribute(group, "global_rank"); rank.kind == Kind::kInt) out.rank = rank.integer();
    if (shards.kind != Kind::kList || m_.count(shards) > 1) return {};
    for (const Value& shard : m_.items(shards)) {
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

  // The shape of a tensor that a call makes.
  Value state_of_tensor(const Value& tensor) const {
    const Value made = tensor.kind == Kind::kObject ? m_.arguments_of(tensor) : Value{};
    return made.kind == Kind::kTuple && made.n > 2 ? m_.element(made, 2) : Value{};
  }

  bool numbers(const Value& tuple, std::vector<int64_t>& out, size_t most = kMaxDims) const {
    if (tuple.kind != Kind::kTuple && tuple.kind != Kind::kList) return false;
    for (const Value& n : m_.items(tuple)) {
      if (n.kind != Kind::kInt || n.integer() < 0 || out.size() >= most) return false;
      out.push_back(n.integer());
    }
    return true;
  }

  using Axis = std::vector<std::pair<int64_t, int64_t>>;  // (size, stride) of each part, the last of which varies fastest

  // Numbers, which may be in tuples of tuples.
  bool flat_numbers(const Value& v, std::vector<int64_t>& out, size_t depth = 0) const {
    if (v.kind == Kind::kInt) return v.integer() >= 0 && out.size() < kMaxDims && (out.push_back(v.integer()), true);
    if ((v.kind != Kind::kTuple && v.kind != Kind::kList) || depth > kMaxDims) return false;
    for (const Value& part : m_.items(v))
      if (!flat_numbers(part, out, depth + 1)) return false;
    return true;
  }

  bool read_axis(const Value& shape, const Value& stride, std::vector<Axis>& out) const {
    std::vector<int64_t> sizes, strides;
    if (out.size() >= kMaxDims || !flat_numbers(shape, sizes) || !flat_numbers(stride, strides) || sizes.size() != strides.size())
      return false;
    out.emplace_back();
    for (size_t n = 0; n < sizes.size(); ++n) out.back().emplace_back(sizes[n], strides[n]);
    return true;
  }

  bool read_axes(const Value& layout, std::vector<Axis>& out) const {
    const Value axes = attribute(layout, "axes"), shape = attribute(layout, "shape"), stride = attribute(layout, "stride");
    Value axis, step;
    if (axes.kind == Kind::kTuple || axes.kind == Kind::kList) {
      for (const Value& part : m_.items(axes)) {
        const Value state = state_of(part);
        if (!read_axis(attribute(state, "shape"), attribute(state, "stride"), out)) return false;
      }
      return true;
    }
    if (shape.kind == Kind::kInt) return read_axis(shape, stride, out);
    if (shape.kind != Kind::kTuple || stride.kind != Kind::kTuple || shape.n != stride.n) return false;
    for (auto sizes = m_.items(shape), strides = m_.items(stride); sizes.next(axis) && strides.next(step);)
      if (!read_axis(axis, step, out)) return false;
    return true;
  }

  // `ranks` are those of a larger mesh, of which that with `rank` at `coordinate` is a part.
  static std::optional<RankMesh> mesh_at(const std::vector<Axis>& axes, const std::vector<int64_t>& ranks,
                                         const std::vector<uint32_t>& coordinate, uint32_t rank) {
    RankMesh mesh;
    std::vector<int64_t> at{0};  // positions in `ranks`, of the places of the mesh
    for (const Axis& axis : axes) {
      size_t size = 1;
      for (const auto& [n, stride] : axis) {
        if (n > int64_t{kMaxRanks} || stride > int64_t{kMaxRanks} || at.size() * static_cast<size_t>(n) > kMaxRanks) return {};
        std::vector<int64_t> next;
        for (const int64_t p : at)
          for (int64_t k = 0; k < n; ++k) next.push_back(p + k * stride);
        at = std::move(next);
        size *= static_cast<size_t>(n);
      }
      mesh.sizes.push_back(static_cast<uint32_t>(size));
    }
    const auto own = row_major_place(mesh.sizes, coordinate);
    const auto here = std::ranges::find(ranks, int64_t{rank}) - ranks.begin();
    int64_t base = own && !coordinate.empty() ? here - at[*own] : 0;
    const int64_t end = at.empty() ? 0 : *std::ranges::max_element(at) + 1;
    if (base < 0 || base + end > std::ssize(ranks)) base = 0;
    if (end > std::ssize(ranks)) return {};
    for (const int64_t p : at) {
      const int64_t r = ranks[static_cast<size_t>(base + p)];
      if (r > INT32_MAX) return {};
      mesh.ranks.push_back(static_cast<uint32_t>(r));
    }
    return mesh;
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
    for (const Value& v : m_.items(list)) {
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

std::string mesh_text(const RankMesh& mesh) {
  std::string shape;
  for (size_t d = 0; mesh.sizes.size() > 1 && d < mesh.sizes.size(); ++d) shape += (d > 0 ? "x" : ", ") + std::to_string(mesh.sizes[d]);
  return numbers_text(mesh.ranks) + shape;
}

std::string other_place(const RankMesh& mesh, const LocalShard& shard, uint32_t rank) {
  if (shard.coordinate.empty()) {
    if (std::ranges::find(mesh.ranks, rank) == mesh.ranks.end()) return {};
    return "a DTensor at no place of the mesh " + mesh_text(mesh);
  }
  const auto own = row_major_place(mesh.sizes, shard.coordinate);
  if (own && *own < mesh.ranks.size() && mesh.ranks[*own] == rank) return {};
  return "a DTensor at place " + numbers_text(shard.coordinate) + " of the mesh " + mesh_text(mesh);
}

RankMeshes::Seen RankMeshes::of(size_t file, uint32_t rank, const PickleGraph& graph, const LocalShard& shard) {
  const auto [known, fresh] = seen_.try_emplace({file, shard.mesh.payload});
  if (!fresh) return known->second;
  const DTensorReader reader(graph);
  known->second.world_size = reader.world_of(shard.mesh);
  if (auto mesh = reader.read_mesh(shard, rank)) known->second.mesh = &*meshes_.insert(std::move(*mesh)).first;
  return known->second;
}

uint64_t RankShards::meet(size_t file, std::string_view key, const LocalShard& shard, const PickleGraph& graph) {
  const auto [world_size, mesh] = meshes_.of(file, files_[file].rank, graph, shard);
  Sharded& s = of_key_[std::string(key)];
  if (s.placements.empty()) s.placements = shard.placements, s.sizes = shard.sizes, s.mesh.sizes.resize(shard.placements.size());
  const auto disagree = [&](std::string what) {
    dispute(s, make_problem(ProblemId::ranks_disagree, {.path = path_, .tensor = std::string(key)}, std::move(what)));
    return world_size;
  };
  if (s.placements != shard.placements) return disagree("two lists of placements");
  if (s.sizes != shard.sizes) return disagree("two shapes");
  if (mesh != nullptr) {
    meet_mesh(file, key, s, shard, *mesh);
    for (size_t d = 0; d < std::min(mesh->sizes.size(), s.mesh.sizes.size()); ++d)
      s.mesh.sizes[d] = std::max(s.mesh.sizes[d], mesh->sizes[d]);
  }
  if (shard.coordinate.empty()) {
    s.outside.push_back(file);
    return world_size;
  }
  for (size_t d = 0; d < shard.coordinate.size(); ++d) s.mesh.sizes[d] = std::max(s.mesh.sizes[d], shard.coordinate[d] + 1);
  s.files.push_back(file);
  s.coordinates.insert(s.coordinates.end(), shard.coordinate.begin(), shard.coordinate.end());
  return world_size;
}

Place RankShards::place_in(size_t file, std::string_view key) const {
  return {.path = path_ + "/" + files_[file].name, .tensor = std::string(key)};
}

void RankShards::meet_mesh(size_t file, std::string_view key, Sharded& s, const LocalShard& shard, const RankMesh& mesh) {
  const uint32_t rank = files_[file].rank;
  if (const std::string other = other_place(mesh, shard, rank); !other.empty())
    dispute(s, make_problem(ProblemId::ranks_disagree, place_in(file, key), other, "rank " + std::to_string(rank) + " there"));
  const auto known = std::ranges::find(s.meshes, &mesh, &Sharded::Claim::mesh);
  if (known != s.meshes.end()) ++known->count;
  else s.meshes.push_back({.mesh = &mesh, .file = file, .count = 1});
}

// Ranks may share a tensor in groups, each with a mesh of its own; a rank is in one of them.
void RankShards::check_meshes(std::string_view key, Sharded& s) {
  std::vector<std::pair<uint32_t, size_t>> claims;
  for (size_t m = 0; s.meshes.size() > 1 && m < s.meshes.size(); ++m)
    for (const uint32_t rank : s.meshes[m].mesh->ranks) claims.emplace_back(rank, m);
  std::ranges::sort(claims);
  const auto same = std::ranges::adjacent_find(claims, {}, &std::pair<uint32_t, size_t>::first);
  const auto other = std::ranges::find_if(s.meshes, [&](const Sharded::Claim& c) { return c.mesh->sizes != s.meshes.front().mesh->sizes; });
  if (same == claims.end() && other == s.meshes.end()) return;
  const Sharded::Claim* odd = same == claims.end() ? &*other : &s.meshes[std::next(same)->second];
  const Sharded::Claim* most = same == claims.end() ? s.meshes.data() : &s.meshes[same->second];
  if (odd->count > most->count) std::swap(odd, most);
  dispute(s, make_problem(ProblemId::ranks_disagree, place_in(odd->file, key), "a DTensor on the mesh " + mesh_text(*odd->mesh),
                          mesh_text(*most->mesh) + ", as in " + files_[most->file].name));
}

uint64_t RankShards::meet(size_t file, std::string_view key, const OffsetShard& shard) {
  const Offsets& first = offset_of_.try_emplace(std::string(key), Offsets{file, shard.world_size, shard.sizes}).first->second;
  if (first.world_size != shard.world_size)
    dispute_offsets(file, key, "a ShardedTensor of " + std::to_string(shard.world_size) + " ranks",
                    std::to_string(first.world_size) + ", as in " + files_[first.file].name);
  if (shard.rank >= 0 && shard.rank != int64_t{files_[file].rank})
    dispute_offsets(file, key, "a ShardedTensor of rank " + std::to_string(shard.rank), "rank " + std::to_string(files_[file].rank));
  return shard.world_size;
}

void RankShards::dispute_offsets(size_t file, std::string_view key, std::string got, std::string expected) {
  if (!disputed_offsets_.emplace(key).second) return;
  findings_.push_back(make_finding(ProblemId::ranks_disagree, Severity::kDamage, place_in(file, key), std::move(got), std::move(expected)));
}

// A rank that has a plain tensor where others have shards: which of them is right is not known.
void RankShards::check_plain() {
  for (const auto& [key, file] : plain_) {
    if (const auto s = of_key_.find(key); s != of_key_.end()) {
      const std::string other = s->second.files.empty() ? "" : ", as in " + files_[s->second.files.front()].name;
      dispute(s->second, make_problem(ProblemId::ranks_disagree, place_in(file, key), "a plain tensor", "a DTensor" + other));
    } else if (const auto o = offset_of_.find(key); o != offset_of_.end()) {
      dispute_offsets(file, key, "a plain tensor", "a ShardedTensor, as in " + files_[o->second.file].name);
    }
  }
}

const std::vector<int64_t>* RankShards::sizes_of(std::string_view key) const {
  if (const auto s = of_key_.find(key); s != of_key_.end()) return &s->second.sizes;
  const auto o = offset_of_.find(key);
  return o == offset_of_.end() ? nullptr : &o->second.sizes;
}

TensorPart RankShards::part(std::string_view key, const OffsetShard& shard) const {
  TensorPart part{.local = shard.local, .local_sizes = shard.local_sizes, .sizes = shard.sizes, .boxes = {}};
  if (shard.local.kind != Kind::kUnset && !disputed_offsets_.contains(key))
    part.boxes.push_back({shard.offsets, shard.local_sizes, std::vector<int64_t>(shard.sizes.size(), 0)});
  return part;
}

void RankShards::lose(const std::vector<std::string>& under) {
  for (auto& [key, s] : of_key_)
    if (!s.files.empty() && files_[s.files.front()].under == under) s.is_disputed = true;
}

void RankShards::check() {
  check_plain();
  for (auto& [key, s] : of_key_) {
    check_meshes(key, s);
    if (!s.is_disputed && places(s).size() < s.mesh.ranks()) explain(key, s);
  }
}

TensorPart RankShards::part(size_t file, std::string_view key, const LocalShard& shard) {
  Sharded& s = of_key_.at(std::string(key));
  TensorPart part{.local = shard.local, .local_sizes = {}, .sizes = shard.sizes, .boxes = {}};
  if (shard.coordinate.empty() || s.is_disputed) return part;
  place(key, s);
  uint32_t rank = 0;
  for (size_t d = 0; d < shard.coordinate.size(); ++d) rank = rank * s.mesh.sizes[d] + shard.coordinate[d];
  const auto [first, last] = std::ranges::equal_range(s.boxes.rank_of, rank);
  set_boxes(part, s.boxes, static_cast<size_t>(first - s.boxes.rank_of.begin()), static_cast<size_t>(last - s.boxes.rank_of.begin()));
  if (part.boxes.empty() || shard.local_sizes == part.local_sizes) return part;
  part.boxes.clear();
  if (!explain(key, s))
    dispute(s,
            make_problem(ProblemId::chunk_shape_differs, place_in(file, key), shape_text(shard.local_sizes), shape_text(part.local_sizes)));
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
  const bool uneven = std::ranges::any_of(at, [&](const auto& ranks) { return ranks.size() != most->size(); });
  if (most != at.end() && most->size() > 1 && (uneven || without == nullptr)) {
    const std::string where = joined(s.coordinate(most->front()), ", ");
    dispute(s, make_problem(ProblemId::rank_place_taken, place_in(s.files[(*most)[1]], key),
                            "[" + where + "], where " + files_[s.files[most->front()]].name + " is", "a place of its own"));
  } else if (without != nullptr) {
    dispute(s, make_problem(ProblemId::rank_lacks_key, place_in(static_cast<size_t>(without - files_.data()), key)));
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
