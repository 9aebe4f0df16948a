#include "staging/chart.h"

#include <algorithm>

namespace dcp {

std::string table_text(const Table& t, size_t left) {
  std::vector<size_t> widths;
  for (const std::string& h : t.head) widths.push_back(h.size());
  for (const auto& row : t.rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string out;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      out += (c == 0 ? "" : "  ") + (c < left ? row[c] + space : space + row[c]);
    }
    text += out.substr(0, out.find_last_not_of(' ') + 1) + "\n";
  };
  add(t.head);
  for (const auto& row : t.rows) add(row);
  return text;
}

}  // namespace dcp
