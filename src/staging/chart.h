// What is drawn and printed of measurements, as plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dcp {

struct Span {
  size_t lane = 0, kind = 0;  // positions in the lists of names
  uint64_t begin_ns = 0, end_ns = 0;
  std::string label;  // shown when the pointer rests on it
};

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};
// Columns aligned by spaces, for a terminal: the first `left` columns to the left, the others to the right.
std::string table_text(const Table& table, size_t left);

}  // namespace dcp
