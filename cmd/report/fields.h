// Tables and rows for programs: CSV for spreadsheets (RFC 4180), and rows of fields that a script names (`--format jsonl --fields key,bytes`). Values
// of the latter are bare: numbers without units or commas, texts as the checkpoint has them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "line/command.h"
#include "line/context.h"
#include "line/lines.h"

namespace dcp::cmd {

// A row with its line end. Fields are escaped as on a terminal, and quoted where they have to be.
std::string csv_row(const Cells& fields);
// Once, whatever the number of checkpoints.
void print_csv_head(const Cells& names, const Context& context);

enum class RowFormat : uint8_t { kNone, kJsonl, kCsv };

struct FieldFlags {
  RowFormat format = RowFormat::kNone;
  std::string fields;  // "": all
};
// Declares --format and --fields; `names` are all fields, in their order.
void add_fields(Command& command, FieldFlags& flags, const std::vector<std::string_view>& names);

// Without a value: null, or an empty cell. Several are a list, in one cell with blanks between.
using FieldValue = std::variant<std::monostate, std::string, int64_t, uint64_t, double, std::vector<int64_t>, std::vector<std::string>>;

class FieldRows {
 public:
  // Throws usage for a name that is none of them. Prints the head of CSV.
  FieldRows(const FieldFlags& flags, const std::vector<std::string_view>& names, const Context& context);
  // Asks for the values that are wanted.
  void add(const std::function<FieldValue(std::string_view field)>& value_of) const;

 private:
  const RowFormat format_;
  const Context& context_;
  std::vector<std::string> wanted_;
};

}  // namespace dcp::cmd
