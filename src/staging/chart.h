// Pictures of what was measured, as self-contained SVG: no script, no font, nothing to load.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dcp {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // bytes, GB/s; ascending
};
// Rates over sizes: bytes on a logarithmic axis. `limit`: a dashed line across; 0: none.
std::string curve_svg(const std::vector<Series>& series, double limit, const std::string& limit_name);

struct Bar {
  std::string name;
  std::vector<uint64_t> parts;  // nanoseconds, from left to right; as many as `legend` names
};
std::string bars_svg(const std::vector<Bar>& bars, const std::vector<std::string>& legend);

struct Span {
  size_t lane = 0, kind = 0;  // positions in the lists of names
  uint64_t begin_ns = 0, end_ns = 0;
  std::string label;  // shown when the pointer rests on it
};
std::string timeline_svg(const std::vector<Span>& spans, const std::vector<std::string>& lanes, const std::vector<std::string>& kinds);

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};
// Columns aligned by spaces, for a terminal: the first `left` columns to the left, the others to the right.
std::string table_text(const Table& table, size_t left);

}  // namespace dcp
