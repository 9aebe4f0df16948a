// The parts of a line's tensor: where each lies and along which words it extends, with the sizes of one match.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/limits.h"
#include "maps/model_map.h"

namespace dcp::maps {

// A part of a tensor, expanded over its dims, with the sizes of one match.
struct Piece {
  std::vector<int64_t> at;  // in each dim
  struct Along {
    Word word = 0;
    uint32_t dim = 0;
    uint64_t size = 1, step = 1;
  };
  std::vector<Along> axes;
};

struct Grid {
  std::vector<int64_t> shape;
  std::vector<Piece> pieces;  // in the order in which the proof counts blocks
};

// Sizes come from `size_of`. Throws map_too_many.
Grid grid_of(const ModelMap& map, const Tensor& tensor, const std::function<uint64_t(Word, Spot)>& size_of, const Limits& limits);

// Throws map_too_many unless a tensor can have so many elements.
void check_elements(const ModelMap& map, const Tensor& tensor, const Grid& grid);

}  // namespace dcp::maps
