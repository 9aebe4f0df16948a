#include "catalog/placements.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/decimal.h"
#include "base/problem.h"
#include "base/text.h"

namespace dcp {
namespace {

// Indices of one dim that a rank has: [begin, begin + size), in ascending order.
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

// Positions [begin, end) of what `runs` lists.
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
  int64_t pieces = 1;  // of a strided one: how many later splits of the same dim make; 1 for shard
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

std::vector<std::string_view> comma_separated(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t comma = text.find(',');
    parts.push_back(trimmed(text.substr(0, comma), " "));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

Placement parse_one(std::string_view text) {
  const size_t open = std::min(text.find('('), text.size());
  std::string name(text.substr(0, open));
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  std::string_view inner = text.substr(open);
  if (name == "replicate" && (inner.empty() || inner == "()")) return {};
  if (inner.size() > 2 && inner.ends_with(')') && (name == "shard" || name == "strided")) {
    inner = trimmed(inner.substr(1, inner.size() - 2), " ");
    if (inner.starts_with("dim=")) inner = trimmed(inner.substr(4), " ");
    if (const auto dim = decimal<int64_t>(inner))
      return {.kind = name == "shard" ? Placement::Kind::kShard : Placement::Kind::kStrided, .dim = *dim};
  }
  fail(ProblemId::usage, {}, "placement '" + std::string(text) + "'", "shard(DIM), strided(DIM) or replicate");
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : ", ") + n;
  return text;
}

[[noreturn]] void fail_name(const std::string& name, const Mesh& mesh) {
  Problem p = make_problem(ProblemId::usage, {}, "mesh dim '" + name + "'");
  if (mesh.names.empty()) p.remedy = Remedy::kMeshNames;
  else p.expected = "one of " + listed(mesh.names);
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
  for (const uint32_t size : sizes) n = std::min(n * size, uint64_t{1} << 32);  // more than there can be, and no overflow
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
  for (const std::string_view name : comma_separated(names)) {
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
  text = trimmed(text, " ");
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);  // as torch prints a DTensor's
  const std::vector<std::string_view> parts = comma_separated(text);
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

bool place_ranks(const Mesh& mesh, const std::vector<Placement>& placements, Dims dims, RankBoxes& boxes) {
  std::vector<Split> splits;
  for (size_t m = 0; m < placements.size(); ++m) {
    const Placement& p = placements[m];
    if (p.kind == Placement::Kind::kReplicate) continue;
    const int64_t dim = p.dim < 0 ? p.dim + static_cast<int64_t>(dims.size()) : p.dim;
    if (dim < 0 || dim >= static_cast<int64_t>(dims.size())) return false;
    splits.push_back({.mesh_dim = m, .dim = static_cast<size_t>(dim)});
  }
  for (size_t i = 0; i < splits.size(); ++i) {
    if (placements[splits[i].mesh_dim].kind != Placement::Kind::kStrided) continue;
    for (size_t later = i + 1; later < splits.size(); ++later)
      if (splits[later].dim == splits[i].dim) splits[i].pieces *= mesh.sizes[splits[later].mesh_dim];
  }

  const auto ranks = static_cast<uint32_t>(mesh.ranks());
  std::vector<Runs> runs(dims.size());
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (size_t d = 0; d < dims.size(); ++d) runs[d].assign(1, {0, dims[d]});
    uint32_t stride = ranks;
    size_t mesh_dim = 0;
    for (const Split& s : splits) {
      for (; mesh_dim <= s.mesh_dim; ++mesh_dim) stride /= mesh.sizes[mesh_dim];
      runs[s.dim] = split(runs[s.dim], s, mesh.sizes[s.mesh_dim], rank / stride % mesh.sizes[s.mesh_dim]);
      if (runs[s.dim].empty()) runs[s.dim].assign(1, {dims[s.dim], 0});
    }
    append_boxes(runs, rank, boxes);
  }
  return true;
}

}  // namespace dcp
