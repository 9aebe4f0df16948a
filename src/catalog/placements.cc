#include "catalog/placements.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/problem.h"
#include "base/text.h"

namespace dcp {
namespace {

// Indices of one dim that a rank has: [begin, begin + size). Runs are in ascending order.
struct Run {
  int64_t begin = 0;
  int64_t size = 0;
};
using Runs = std::vector<Run>;

int64_t total(const Runs& runs) {
  int64_t n = 0;
  for (const Run& r : runs) n += r.size;
  return n;
}

// Takes positions [begin, end) of the indices that `runs` lists.
void take(const Runs& runs, int64_t begin, int64_t end, Runs& out) {
  int64_t at = 0;
  for (const Run& r : runs) {
    const int64_t lo = std::max(begin, at), hi = std::min(end, at + r.size);
    at += r.size;
    if (lo >= hi) continue;
    const int64_t first = r.begin + lo - (at - r.size);
    if (!out.empty() && out.back().begin + out.back().size == first) out.back().size += hi - lo;
    else out.push_back({first, hi - lo});
  }
}

// torch.chunk: part `n` of `parts` of [0, size).
std::pair<int64_t, int64_t> chunk(int64_t size, int64_t parts, int64_t n) {
  const int64_t each = (size + parts - 1) / parts;
  return {std::min(size, each * n), std::min(size, each * (n + 1))};
}

struct Split {
  size_t mesh_dim = 0;
  size_t dim = 0;
  int64_t pieces = 1;  // for strided: the number of pieces that later splits of the same dim make; 1 for shard
};

Runs split(const Runs& runs, const Split& s, int64_t ranks, int64_t coordinate) {
  Runs out;
  const int64_t size = total(runs);
  for (int64_t p = 0; p < s.pieces; ++p) {
    const auto [piece, piece_end] = chunk(size, s.pieces, p);
    const auto [begin, end] = chunk(piece_end - piece, ranks, coordinate);
    take(runs, piece + begin, piece + end, out);
  }
  return out;
}

// One box for each combination of runs, the last dim fastest.
void append_boxes(const std::vector<Runs>& runs, uint32_t rank, RankBoxes& boxes) {
  std::vector<size_t> at(runs.size(), 0);
  for (;;) {
    for (size_t d = 0; d < runs.size(); ++d) boxes.numbers.push_back(runs[d][at[d]].begin);
    for (size_t d = 0; d < runs.size(); ++d) boxes.numbers.push_back(runs[d][at[d]].size);
    boxes.rank_of.push_back(rank);
    size_t d = runs.size();
    while (d > 0 && ++at[d - 1] == runs[d - 1].size()) at[--d] = 0;
    if (d == 0) return;
  }
}

Placement parse_one(std::string_view text) {
  const size_t open = std::min(text.find('('), text.size());
  const std::string name = lowered(text.substr(0, open));
  std::string_view inner = text.substr(open);
  if (name == "replicate" && (inner.empty() || inner == "()")) return {};
  if (inner.size() > 2 && inner.ends_with(')') && (name == "shard" || name == "strided")) {
    inner = trimmed(inner.substr(1, inner.size() - 2));
    if (inner.starts_with("dim=")) inner = trimmed(inner.substr(4));
    if (const auto dim = decimal<int64_t>(inner))
      return {.kind = name == "shard" ? Placement::Kind::kShard : Placement::Kind::kStrided, .dim = *dim};
  }
  fail(ProblemId::usage, {}, "placement '" + std::string(text) + "'", "shard(DIM), strided(DIM) or replicate");
}

[[noreturn]] void fail_name(const std::string& name, const Mesh& mesh) {
  Problem p = make_problem(ProblemId::usage, {}, "mesh dim '" + name + "'");
  if (mesh.names.empty()) p.remedy = Remedy::kMeshNames;
  else p.expected = "one of " + joined(mesh.names, ", ");
  throw Error(std::move(p));
}

// "tp:shard(0)": the mesh dim and the placement on it.
std::pair<size_t, Placement> parse_named(std::string_view text, const Mesh& mesh) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    fail(ProblemId::usage, {}, "placement '" + std::string(text) + "' among ones with names", "DIM:PLACEMENT");
  const std::string name(text.substr(0, colon));
  const auto found = std::ranges::find(mesh.names, name);
  if (found == mesh.names.end()) fail_name(name, mesh);
  return {static_cast<size_t>(found - mesh.names.begin()), parse_one(text.substr(colon + 1))};
}

}  // namespace

uint64_t Mesh::ranks() const {
  uint64_t n = 1;
  for (const uint32_t size : sizes) n = std::min(n * size, uint64_t{1} << 32);  // clamped, so that it cannot overflow
  return n;
}

void RankBoxes::clear() {
  numbers.clear();
  rank_of.clear();
}

Mesh parse_mesh(std::string_view sizes, std::string_view names) {
  const std::string whole(sizes);
  Mesh mesh;
  for (uint64_t ranks = 1;;) {
    const size_t x = sizes.find('x');
    const auto size = decimal<uint32_t>(sizes.substr(0, x));
    if (!size || *size == 0 || *size > kMaxRanks || (ranks *= *size) > kMaxRanks)
      fail(ProblemId::usage, {}, "mesh '" + whole + "'",
           "sizes with x between, such as 2x4, of at most " + std::to_string(kMaxRanks) + " ranks");
    mesh.sizes.push_back(*size);
    if (x == std::string_view::npos) break;
    sizes.remove_prefix(x + 1);
  }
  if (names.empty()) return mesh;
  for (const std::string_view name : split(names, ',', " ")) {
    if (name.empty() || std::ranges::find(mesh.names, name) != mesh.names.end())
      fail(ProblemId::usage, {}, "mesh dims '" + std::string(names) + "'", "distinct names with commas between");
    mesh.names.emplace_back(name);
  }
  if (mesh.names.size() != mesh.sizes.size())
    fail(ProblemId::usage, {}, std::to_string(mesh.names.size()) + " names '" + std::string(names) + "' for mesh " + whole,
         std::to_string(mesh.sizes.size()));
  return mesh;
}

std::vector<Placement> parse_placements(std::string_view text, const Mesh& mesh) {
  text = trimmed(text);
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);  // as torch prints a DTensor's
  const std::vector<std::string_view> parts = split(text, ',', " ");
  std::vector<Placement> placements;
  if (text.find(':') == std::string_view::npos) {
    for (const std::string_view part : parts) placements.push_back(parse_one(part));
    if (placements.size() != mesh.sizes.size())
      fail(ProblemId::usage, {}, std::to_string(placements.size()) + " placements '" + std::string(text) + "'",
           std::to_string(mesh.sizes.size()) + ", one a mesh dim");
    return placements;
  }
  placements.resize(mesh.sizes.size());
  std::vector<bool> named(mesh.sizes.size());
  for (const std::string_view part : parts) {
    const auto [dim, placement] = parse_named(part, mesh);
    if (named[dim]) fail(ProblemId::usage, {}, "two placements on mesh dim '" + mesh.names[dim] + "'", "one");
    named[dim] = true;
    placements[dim] = placement;
  }
  return placements;
}

std::vector<Placement> fitting(std::vector<Placement> placements, size_t rank) {
  for (Placement& p : placements) {
    const int64_t dim = p.dim < 0 ? p.dim + static_cast<int64_t>(rank) : p.dim;
    if (dim < 0 || dim >= static_cast<int64_t>(rank)) p = {};
  }
  return placements;
}

namespace {

std::optional<std::vector<Split>> splits_of(const Mesh& mesh, const std::vector<Placement>& placements, size_t dims) {
  std::vector<Split> splits;
  for (size_t m = 0; m < placements.size(); ++m) {
    const Placement& p = placements[m];
    if (p.kind == Placement::Kind::kReplicate) continue;
    const int64_t dim = p.dim < 0 ? p.dim + static_cast<int64_t>(dims) : p.dim;
    if (dim < 0 || dim >= static_cast<int64_t>(dims)) return std::nullopt;
    splits.push_back({.mesh_dim = m, .dim = static_cast<size_t>(dim)});
  }
  for (size_t i = 0; i < splits.size(); ++i) {
    if (placements[splits[i].mesh_dim].kind != Placement::Kind::kStrided) continue;
    for (size_t later = i + 1; later < splits.size(); ++later)
      if (splits[later].dim == splits[i].dim) splits[i].pieces *= mesh.sizes[splits[later].mesh_dim];
  }
  return splits;
}

void place(const Mesh& mesh, const std::vector<Split>& splits, Dims dims, uint32_t rank, RankBoxes& boxes) {
  std::vector<Runs> runs(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) runs[d].assign(1, {0, dims[d]});
  auto stride = static_cast<uint32_t>(mesh.ranks());
  size_t mesh_dim = 0;
  for (const Split& s : splits) {
    for (; mesh_dim <= s.mesh_dim; ++mesh_dim) stride /= mesh.sizes[mesh_dim];
    runs[s.dim] = split(runs[s.dim], s, mesh.sizes[s.mesh_dim], rank / stride % mesh.sizes[s.mesh_dim]);
    if (runs[s.dim].empty()) runs[s.dim].assign(1, {dims[s.dim], 0});
  }
  append_boxes(runs, rank, boxes);
}

}  // namespace

bool place_ranks(const Mesh& mesh, const std::vector<Placement>& placements, Dims dims, RankBoxes& boxes) {
  const auto splits = splits_of(mesh, placements, dims.size());
  for (uint32_t rank = 0; splits && rank < mesh.ranks(); ++rank) place(mesh, *splits, dims, rank, boxes);
  return splits.has_value();
}

bool place_rank(const Mesh& mesh, const std::vector<Placement>& placements, Dims dims, uint32_t rank, RankBoxes& boxes) {
  const auto splits = splits_of(mesh, placements, dims.size());
  if (splits) place(mesh, *splits, dims, rank, boxes);
  return splits.has_value();
}

HeldBoxes join_boxes(const RankBoxes& boxes, size_t first, size_t last, size_t dims) {
  std::vector<std::map<int64_t, int64_t>> runs(dims);  // of a dim: offset to size, then to where it begins in what the rank holds
  for (size_t n = first; n < last; ++n)
    for (size_t d = 0; d < dims; ++d) runs[d][boxes.box(n, dims).offsets[d]] = boxes.box(n, dims).sizes[d];
  HeldBoxes held;
  for (auto& of_dim : runs) {
    int64_t begin = 0;
    for (auto& [offset, size] : of_dim) begin += std::exchange(size, begin);
    held.sizes.push_back(begin);
  }
  for (size_t n = first; n < last; ++n)
    for (size_t d = 0; d < dims; ++d) held.offsets.push_back(runs[d].at(boxes.box(n, dims).offsets[d]));
  return held;
}

namespace {

struct Interval {
  int64_t offset;
  int64_t size;
  auto operator<=>(const Interval&) const = default;
};

bool even(const std::set<Interval>& cuts) {
  for (const Interval& i : cuts)
    if (i.size != cuts.begin()->size) return false;
  return true;
}

}  // namespace

std::string sharding_words(const Catalog& catalog, const Tensor& t) {
  if (t.chunk_count == 0) return "no chunks";
  if (t.chunk_count == 1) return std::ranges::equal(catalog.box(t, 0).sizes, catalog.dims(t)) ? "whole" : "partial";
  const std::string count = std::to_string(t.chunk_count);
  std::vector<std::set<Interval>> cuts(t.rank);  // of chunks with elements
  uint32_t live = 0;
  for (uint32_t c = 0; c < t.chunk_count; ++c) {
    const BoxView b = catalog.box(t, c);
    if (volume(b.sizes) == 0) continue;
    ++live;
    for (unsigned d = 0; d < t.rank; ++d) cuts[d].insert(cuts[d].end(), {b.offsets[d], b.sizes[d]});
  }
  uint64_t cells = 1;
  unsigned cut_dims = 0, cut_dim = 0;
  bool all_even = live == t.chunk_count;
  std::string shape;
  for (unsigned d = 0; d < t.rank; ++d) {
    const size_t n = std::max<size_t>(cuts[d].size(), 1);
    cells *= n;
    if (n > 1) ++cut_dims, cut_dim = d;
    all_even = all_even && even(cuts[d]);
    shape += (d ? "x" : "") + std::to_string(n);
  }
  // One chunk with elements among empty ones: the cut is on the dim where the empty ones start past the end.
  if (live <= 1) {
    for (uint32_t c = 0; c < t.chunk_count; ++c)
      for (unsigned d = 0; d < t.rank; ++d)
        if (volume(catalog.box(t, c).sizes) == 0 && catalog.box(t, c).offsets[d] > 0)
          return "Shard(" + std::to_string(d) + ") x" + count + " uneven";
    return "irregular x" + count;
  }
  if (cells != live) return "irregular x" + count;
  const std::string tail = all_even ? "" : " uneven";
  if (cut_dims == 1) return "Shard(" + std::to_string(cut_dim) + ") x" + count + tail;
  return "grid " + shape + tail;
}

uint32_t world_size_shown(const Catalog& catalog) {
  if (catalog.provenance.ranks > 0) return catalog.provenance.ranks;
  uint32_t max = 0;
  for (const Tensor& t : catalog.tensors) max = std::max(max, t.chunk_count);
  return max > 1 ? max : 0;
}

}  // namespace dcp
