#include "report/csv.h"

#include "base/problem.h"

namespace dcp::cmd {

std::string csv_row(const Cells& fields) {
  std::string row;
  for (const std::string& field : fields) {
    std::string text = escaped(field);
    if (text.find_first_of(",\"") != text.npos) {
      for (size_t at = text.find('"'); at != text.npos; at = text.find('"', at + 2)) text.insert(at, 1, '"');
      text = '"' + text + '"';
    }
    row.append(&field == &fields.front() ? "" : ",").append(text);
  }
  return row + "\r\n";
}

void print_csv_head(const Cells& names, const Context& context) {
  context.apart = false;
  if (!context.is_later) context.print(csv_row(names));
}

}  // namespace dcp::cmd
