#include "maps/config_shapes.h"

#include <algorithm>
#include <set>

#include "maps/builtin.h"
#include "maps/grid.h"

namespace dcp::maps {

ConfigShapes::ConfigShapes(Config config) : config_(std::move(config)), map_(family_map(config_.model_type(), "transformers", Limits())) {
  try {
    if (!map_) return;
    left_.emplace(*map_, Side::kLeft);
    right_.emplace(*map_, Side::kRight);
    sizes_.emplace(*map_, config_, std::vector<Setting>());
  } catch (const Error&) {  // it lacks what the map needs
  }
}

std::optional<std::vector<int64_t>> ConfigShapes::of(std::string_view text) const {
  if (!sizes_) return {};
  const Key key = key_of(text);
  std::set<std::vector<int64_t>> shapes;
  std::vector<uint64_t> numbers;
  for (const Side side : {Side::kRight, Side::kLeft})
    for (const Taker& taker : (side == Side::kRight ? right_ : left_)->of_form(key)) {
      if (!fits(taker.pattern, key, numbers)) continue;
      const auto shape = of(taker, side);
      if (!shape) return {};
      shapes.insert(*shape);
    }
  return shapes.size() == 1 ? std::optional(*shapes.begin()) : std::nullopt;
}

std::optional<std::vector<int64_t>> ConfigShapes::of(const Taker& taker, Side side) const {
  for (const Tensor& t : map_->lines[taker.line].sides[static_cast<size_t>(side)]) {
    const bool is_named = std::ranges::any_of(t.names, [&](const Name& n) { return &n == taker.name; });
    if (!is_named || !t.has_axes) continue;
    try {
      return grid_of(*map_, t, [&](Word w, Spot spot) { return sizes_->need(w, sizes_->global(), spot); }, Limits()).shape;
    } catch (const Error&) {
      return {};
    }
  }
  return {};
}

}  // namespace dcp::maps
