// Parses the two sides of a map line, and size expressions, from left to right.
#pragma once

#include <string>
#include <vector>

#include "base/limits.h"
#include "maps/line_reader.h"
#include "maps/model_map.h"

namespace dcp::maps {

inline constexpr uint32_t kDeepest = 16;     // parentheses in parentheses, blocks in blocks
inline constexpr size_t kMaxFactors = 1024;  // axes, summands or tensors beside one another

// A map whose text is being read.
struct MapText {
  ModelMap map;
  const Limits& limits;

  Word intern(const std::string& text);
  [[noreturn]] void too_long(Spot spot, const char* what, uint64_t max) const;
};

// SIZE * 2 | key.of.config
Expression parse_expression(LineReader& in, MapText& text);
// TENSOR, TENSOR; none. A tensor is NAME[AXES].
std::vector<Tensor> parse_side(LineReader& in, MapText& text);

}  // namespace dcp::maps
