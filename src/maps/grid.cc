#include "maps/grid.h"

#include <optional>
#include <utility>

#include "base/checked.h"
#include "maps/expand.h"

namespace dcp::maps {

Grid grid_of(const ModelMap& map, const Tensor& tensor, const std::function<uint64_t(Word, Spot)>& size_of, const Limits& limits) {
  Grid grid{.shape = {}, .pieces = {{}}};
  for (uint32_t d = 0; d < tensor.dims.size(); ++d) {
    const Axis& dim = tensor.dims[d];
    const Extent extent = expand(map, dim, [&](Word w) { return size_of(w, dim.spot); }, limits.map_blocks);
    grid.shape.push_back(static_cast<int64_t>(extent.size));
    std::vector<Piece> next;
    for (const Piece& before : grid.pieces) {
      for (const Part& part : extent.parts) {
        Piece& piece = next.emplace_back(before);
        piece.at.push_back(static_cast<int64_t>(part.offset));
        for (const Step& s : part.steps) piece.axes.push_back({s.word, d, s.size, s.step});
      }
    }
    grid.pieces = std::move(next);
  }
  return grid;
}

void check_elements(const ModelMap& map, const Tensor& tensor, const Grid& grid) {
  uint64_t all = 1;
  for (const int64_t d : grid.shape) {
    const auto next = d == 0 ? std::optional<uint64_t>(all) : checked_mul(all, static_cast<uint64_t>(d));
    if (!next || *next > (uint64_t{1} << 62))
      fail_at(map, tensor.spot, ProblemId::map_too_many, "a tensor beyond 2^62 elements", "a size that a tensor can have");
    all = *next;
  }
}

}  // namespace dcp::maps
