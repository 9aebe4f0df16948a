#include "plan/placements.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/problem.h"

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

Placement parse_one(std::string_view text) {
  if (text == "replicate") return {};
  const size_t open = text.find('(');
  const std::string_view name = text.substr(0, open);
  if (open != std::string_view::npos && text.ends_with(')') && (name == "shard" || name == "strided")) {
    const std::string_view number = text.substr(open + 1, text.size() - open - 2);
    int64_t dim = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), dim);
    if (error == std::errc{} && end == number.data() + number.size() && !number.empty())
      return {.kind = name == "shard" ? Placement::Kind::kShard : Placement::Kind::kStrided, .dim = dim};
  }
  fail(ProblemId::usage, {}, "placement '" + std::string(text) + "'", "shard(DIM), strided(DIM) or replicate");
}

}  // namespace

uint64_t Mesh::ranks() const {
  uint64_t n = 1;
  for (const uint32_t size : sizes) n *= size;
  return n;
}

void RankBoxes::clear() {
  numbers.clear();
  rank_of.clear();
}

std::vector<Placement> parse_placements(std::string_view text) {
  std::vector<Placement> placements;
  for (;;) {
    const size_t comma = text.find(',');
    std::string_view one = text.substr(0, comma);
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    placements.push_back(parse_one(one));
    if (comma == std::string_view::npos) return placements;
    text.remove_prefix(comma + 1);
  }
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
