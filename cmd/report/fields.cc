#include "report/fields.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/problem.h"
#include "base/text.h"
#include "line/option_values.h"

namespace dcp::cmd {
namespace {

std::string cell(const FieldValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) return "";
        else if constexpr (std::is_same_v<T, std::string>) return v;
        else if constexpr (std::is_same_v<T, double>) return std::isfinite(v) ? python_float(v) : "";
        else if constexpr (std::is_integral_v<T>) return std::to_string(v);
        else return joined(v, " ");
      },
      value);
}

void value_json(JsonWriter& json, const FieldValue& value) {
  std::visit(
      [&](const auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>) json.null();
        else json.value(v);
      },
      value);
}

}  // namespace

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

void add_fields(Command& c, FieldFlags& flags, const std::vector<std::string_view>& names) {
  const std::string group = "Rows for scripts";
  const Choices<RowFormat> formats{{"jsonl", RowFormat::kJsonl}, {"csv", RowFormat::kCsv}};
  c.choice("--format", flags.format, formats, "FORMAT",
           "A row for each, as a line of JSON (jsonl) or of CSV (csv, RFC 4180), with bare numbers")
      .in(group);
  c.option("--fields", flags.fields, "LIST", "Of each row these alone, in this order (default: all): " + joined(names, ", "))
      .needs("--format")
      .in(group);
}

FieldRows::FieldRows(const FieldFlags& flags, const std::vector<std::string_view>& names, const Context& context)
    : format_(flags.format), context_(context) {
  if (flags.fields.empty()) wanted_.assign(names.begin(), names.end());
  else wanted_ = split_list(flags.fields);
  for (const std::string& field : wanted_)
    if (std::ranges::find(names, field) == names.end())
      fail(ProblemId::usage, {}, "--fields '" + escaped(field) + "'", joined(names, ", "));
  context.apart = false;
  if (format_ == RowFormat::kCsv) print_csv_head(wanted_, context);
}

void FieldRows::add(const std::function<FieldValue(std::string_view)>& value_of) const {
  if (format_ == RowFormat::kCsv) {
    Cells cells;
    for (const std::string& field : wanted_) cells.push_back(cell(value_of(field)));
    context_.print(csv_row(cells));
    return;
  }
  context_.print(json_document([&](JsonWriter& json) {
    for (const std::string& field : wanted_) value_json(json.key(field), value_of(field));
  }));
}

}  // namespace dcp::cmd
