#include "report/stats_report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>

#include "base/text.h"
#include "line/lines.h"
#include "line/problem_words.h"
#include "report/inspect_text.h"

namespace dcp::cmd {
namespace {

bool is_integer(DType dtype) { return facts_of(dtype).kind == DTypeKind::kInt || facts_of(dtype).kind == DTypeKind::kBool; }

std::string bound_text(DType dtype, long double value) {
  char text[64];
  std::snprintf(text, sizeof text, is_integer(dtype) ? "%.0Lf" : "%.6Lg", value);
  return text;
}

std::string number_text(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

double power(size_t decade) { return std::pow(10.0, TensorStats::kLowest + static_cast<int>(decade)); }

void bound_json(JsonWriter& out, std::string_view name, DType dtype, long double value) {
  if (!is_integer(dtype)) out.member(name, static_cast<double>(value));
  else if (value < 0) out.member(name, static_cast<int64_t>(value));
  else out.member(name, static_cast<uint64_t>(value));
}

std::string line(const char* name, const std::string& text) {
  char row[128];
  std::snprintf(row, sizeof row, "  %-6s %s\n", name, text.c_str());
  return row;
}

// "  0.001 to 0.01      12.3%  ####"
std::string histogram_text(const TensorStats& s) {
  constexpr double kWidth = 40;
  const auto& d = s.decades;
  const auto holds = [](uint64_t n) { return n > 0; };
  const auto first = std::ranges::find_if(d, holds) - d.begin();
  const auto last = d.rend() - std::find_if(d.rbegin(), d.rend(), holds);  // one behind it
  const uint64_t max = *std::ranges::max_element(d);
  std::string text;
  for (auto n = first; n < last; ++n) {
    const auto i = static_cast<size_t>(n);
    const std::string from = i == 0 ? "less" : number_text(power(i)), to = i + 1 == d.size() ? "more" : number_text(power(i + 1));
    const double share = static_cast<double>(d[i]) / static_cast<double>(s.values);
    const auto bar = static_cast<size_t>(std::ceil(kWidth * static_cast<double>(d[i]) / static_cast<double>(max)));
    char row[160];
    std::snprintf(row, sizeof row, "  %8s to %-8s %6.2f%%  %s\n", from.c_str(), to.c_str(), 100 * share, std::string(bar, '#').c_str());
    text += row;
  }
  return text.empty() ? "" : "  magnitudes\n" + text;
}

// Eight heights, of how many values lie in each step from min to max.
std::string steps_text(const TensorStats& s) {
  constexpr std::array<std::string_view, 9> kHeights{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const uint64_t most = std::max<uint64_t>(*std::ranges::max_element(s.steps), 1);
  std::string text;
  for (const uint64_t n : s.steps)
    text += kHeights[n == 0 ? 0 : 1 + static_cast<size_t>(7 * static_cast<double>(n) / static_cast<double>(most))];
  return text;
}

std::string quantile_text(const TensorStats& s, size_t n) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3g", s.quantiles[n]);
  return text;
}

constexpr size_t kLow = 1, kMiddle = 3, kHigh = 5;  // of the quantiles, those that a table shows: 5, 50 and 95 %

std::string names_of(const StatsResult& result, uint64_t TensorStats::* count) {
  std::vector<std::string> names;
  for (const KeyStats& k : result.tensors)
    if (k.stats.*count > 0) names.push_back(k.key);
  return names.empty() ? "" : counted(names.size(), "tensor") + ": " + list_of(names);
}

Cells stats_row(const KeyStats& k) {
  const TensorStats& s = k.stats;
  Cells row{shortened(k.key), std::string(facts_of(k.dtype).name), shape_text(k.shape)};
  if (k.fault) row.insert(row.end(), {"cannot be read"});
  else if (!k.has_numbers) row.insert(row.end(), {"no numbers"});
  else if (s.finite() == 0) row.insert(row.end(), {"", "", "", "", grouped(s.zero), grouped(s.nan), grouped(s.infinite)});
  else
    row.insert(row.end(), {bound_text(k.dtype, s.min), bound_text(k.dtype, s.max), number_text(s.mean),
                           s.finite() > 1 ? number_text(s.std()) : "", grouped(s.zero), grouped(s.nan), grouped(s.infinite),
                           quantile_text(s, kLow), quantile_text(s, kMiddle), quantile_text(s, kHigh), "|" + steps_text(s) + "|"});
  return row;
}

// In natural order of their names.
std::vector<const KeyStats*> by_name(const StatsResult& result) {
  std::vector<const KeyStats*> sorted;
  for (const KeyStats& k : result.tensors) sorted.push_back(&k);
  std::ranges::stable_sort(sorted, [](const KeyStats* a, const KeyStats* b) { return natural_less(a->key, b->key); });
  return sorted;
}

// So that lines fit a terminal: what says least of a model that went wrong goes first. From right to left.
std::vector<size_t> columns_left_out(const RowSource& rows, size_t width) {
  constexpr size_t kStd = 6, kMean = 5, kZero = 7, kShape = 2, kDtype = 1, kPercent5 = 10, kPercent50 = 11, kPercent95 = 12, kSteps = 13;
  std::vector<size_t> widths;
  rows([&](const Cells& row) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  });
  size_t sum = 0;
  for (const size_t w : widths) sum += w + 2;
  std::vector<size_t> left_out;
  for (const size_t column : {kPercent5, kPercent95, kPercent50, kStd, kMean, kSteps, kZero, kDtype, kShape}) {
    if (sum <= width + 2 || column >= widths.size()) break;
    sum -= widths[column] + 2;
    left_out.push_back(column);
  }
  std::ranges::sort(left_out, std::greater<>());
  return left_out;
}

}  // namespace

std::string stats_text(const KeyStats& k) {
  const TensorStats& s = k.stats;
  std::string text = escaped(k.key) + ": " + std::string(facts_of(k.dtype).name) + " " + shape_text(k.shape);
  if (!k.has_numbers) return text + ", which holds no numbers\n";
  if (facts_of(k.dtype).kind == DTypeKind::kComplex) text += ", real and imaginary parts";
  text += "\n" + line("values", grouped(s.values));
  if (s.finite() > 0) {
    text += line("min", bound_text(k.dtype, s.min)) + line("max", bound_text(k.dtype, s.max)) + line("mean", number_text(s.mean));
    if (s.finite() > 1) text += line("std", number_text(s.std()));
  }
  text += line("zero", grouped(s.zero)) + line("NaN", grouped(s.nan)) + line("inf", grouped(s.infinite));
  if (s.finite() > 1) {
    std::string quantiles;
    for (size_t n = 0; n < TensorStats::kPercents.size(); ++n)
      quantiles += (n > 0 ? "  " : "") + std::to_string(TensorStats::kPercents[n]) + " % " + quantile_text(s, n);
    text += line("below", quantiles) + line("steps", "|" + steps_text(s) + "| from min to max");
  }
  return text + histogram_text(s);
}

void stats_json(JsonWriter& out, const KeyStats& k) {
  const TensorStats& s = k.stats;
  out.member("key", k.key).member("dtype", facts_of(k.dtype).name).member("shape", k.shape);
  if (k.fault) return error_json(out.key("error"), *k.fault);
  out.member("has_numbers", k.has_numbers);
  if (!k.has_numbers) return;
  out.member("values", s.values).member("nan", s.nan).member("inf", s.infinite).member("zero", s.zero);
  if (s.finite() == 0) return;
  bound_json(out, "min", k.dtype, s.min);
  bound_json(out, "max", k.dtype, s.max);
  out.member("mean", s.mean).member("std", s.std()).key("quantiles").begin_array();
  for (size_t n = 0; n < TensorStats::kPercents.size(); ++n)
    out.begin_object().member("percent", TensorStats::kPercents[n]).member("value", s.quantiles[n]).end_object();
  out.end_array().member("steps", s.steps).key("magnitudes").begin_array();
  for (size_t i = 0; i < s.decades.size(); ++i) {
    if (s.decades[i] == 0) continue;
    out.begin_object();
    if (i > 0) out.member("from", power(i));
    if (i + 1 < s.decades.size()) out.member("to", power(i + 1));
    out.member("values", s.decades[i]).end_object();
  }
  out.end_array();
}

void stats_json(JsonWriter& out, const StatsResult& result) {
  out.key("stats").begin_array();
  for (const KeyStats& k : result.tensors) {
    out.begin_object();
    stats_json(out, k);
    out.end_object();
  }
  out.end_array();
}

void stats_section(JsonWriter& json, const StatsResult& result) {
  json.begin_object().member("type", "stats").member("percents", TensorStats::kPercents).key("keys").begin_array();
  for (const KeyStats* k : by_name(result)) {
    const TensorStats& s = k->stats;
    json.begin_object().member("key", escaped(k->key)).member("dtype", facts_of(k->dtype).name).member("shape", k->shape);
    if (k->fault) json.member("fault", to_line(worded(*k->fault)));
    else if (k->has_numbers) {
      json.member("values", s.values);
      for (const auto& [name, count] : {std::pair("nan", s.nan), std::pair("inf", s.infinite), std::pair("zero", s.zero)})
        if (count > 0) json.member(name, count);
      if (s.finite() > 0) {
        const auto number = [&](const char* name, long double value) { json.member(name, page_number(static_cast<double>(value))); };
        const auto bound = [&](const char* name, long double value) {
          is_integer(k->dtype) ? bound_json(json, name, k->dtype, value) : number(name, value);
        };
        bound("min", s.min), bound("max", s.max), number("mean", s.mean), number("std", s.std());
        json.key("quantiles").begin_array();
        for (const double value : s.quantiles) json.value(page_number(value));
        json.end_array();
      }
      const auto first = std::ranges::find_if(s.decades, [](uint64_t n) { return n > 0; }) - s.decades.begin();
      std::vector<uint64_t> counts(s.decades.begin() + first, s.decades.end());
      while (!counts.empty() && counts.back() == 0) counts.pop_back();
      if (!counts.empty()) json.member("first", TensorStats::kLowest + static_cast<int>(first)).member("counts", counts);
    }
    json.end_object();
  }
  json.end_array().end_object();
}

std::string not_finite_text(const StatsResult& result) {
  const auto with = [&](uint64_t TensorStats::* count) {
    return static_cast<uint64_t>(std::ranges::count_if(result.tensors, [&](const KeyStats& k) { return k.stats.*count > 0; }));
  };
  const uint64_t nan = with(&TensorStats::nan), infinite = with(&TensorStats::infinite);
  if (nan + infinite == 0) return "";
  return (nan > 0 ? ", NaN in " + counted(nan, "tensor") : "") + (infinite > 0 ? ", inf in " + counted(infinite, "tensor") : "");
}

Card stats_card(const StatsResult& result) {
  uint64_t bad = 0;
  for (const KeyStats& k : result.tensors) bad += k.stats.nan + k.stats.infinite > 0;
  if (bad > 0) return {.label = "values", .value = "NaN or inf", .note = "in " + counted(bad, "tensor"), .tone = "bad"};
  return {.label = "values",
          .value = "no NaN, no inf",
          .note = counted(result.tensors.size(), "tensor") + ", " + human_bytes(result.bytes_read) + " read",
          .tone = "good"};
}

Problem nothing_to_measure(std::string_view glob, const std::string& path) {
  Problem p = make_problem(ProblemId::nothing_selected, {.path = path});
  p.what = "--stats '" + escaped(glob) + "' matches no tensor";
  return p;
}

void print_stats(const StatsResult& result, std::string_view path, const Context& context) {
  const std::string nan = names_of(result, &TensorStats::nan), infinite = names_of(result, &TensorStats::infinite);
  const std::string title = path.empty() ? "" : escaped(path) + ": ", each = context.several ? title : "";
  context.print(title + counted(result.tensors.size(), "tensor") + "\n");
  const bool color = context.colored(1);
  if (!nan.empty()) context.print(each + styled("NaN in ", Style::kRed, color) + nan + "\n");
  if (!infinite.empty()) context.print(each + styled("inf in ", Style::kRed, color) + infinite + "\n");
  if (nan.empty() && infinite.empty() && !result.tensors.empty()) context.print("no NaN, no inf\n");
  const std::vector<const KeyStats*> sorted = by_name(result);
  const auto rows = [&](const std::function<void(Cells)>& add) {
    if (!sorted.empty())
      add({"key", "dtype", "shape", "min", "max", "mean", "std", "zero", "NaN", "inf", "5 %", "50 %", "95 %", "min to max"});
    for (const KeyStats* k : sorted) add(stats_row(*k));
  };
  std::vector<bool> right{false, false, false, true, true, true, true, true, true, true, true, true, true, false};
  const std::vector<size_t> left_out =
      context.at_terminal(STDOUT_FILENO) ? columns_left_out(rows, context.columns(STDOUT_FILENO)) : std::vector<size_t>{};
  for (const size_t column : left_out) right.erase(right.begin() + static_cast<ptrdiff_t>(column));
  print_table(context, right, for_reader(context), [&](const std::function<void(Cells)>& add) {
    rows([&](Cells row) {
      for (const size_t column : left_out)
        if (column < row.size()) row.erase(row.begin() + static_cast<ptrdiff_t>(column));
      add(std::move(row));
    });
  });
}

}  // namespace dcp::cmd
