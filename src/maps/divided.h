// Axes whose size shows only when a dim is divided by sizes of the model: d in (h d), with h from config.json. One shape alone does not
// show that h is wrong, but Q and K of a layer then have different d.
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "maps/choose.h"

namespace dcp::maps {

class DividedAxes {
 public:
  DividedAxes(const ModelMap& map, const Sizes& sizes) : map_(map), sizes_(sizes) {}
  // Throws map_size_differs if a line of the same branch has another size for the axis at the same indexes.
  void check(const Match& match, std::span<const Shaped> tensors, const Values& values, const std::vector<std::string_view>& keys);

 private:
  void check(const Match& match, const Shaped& tensor, const Axis& dim, const Values& values, const std::vector<std::string_view>& keys);

  struct Found {
    uint64_t size = 0;
    uint32_t line = 0, source = 0;
  };
  // Branch, indexes and their values, axis.
  using Place = std::tuple<std::vector<std::pair<uint32_t, uint32_t>>, std::vector<std::pair<Word, uint64_t>>, Word>;

  const ModelMap& map_;
  const Sizes& sizes_;
  std::map<Place, Found> found_;
};

}  // namespace dcp::maps
