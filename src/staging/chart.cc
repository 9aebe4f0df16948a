#include "staging/chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"

namespace dcp {
namespace {

// Colours that people with red-green blindness can distinguish (Okabe and Ito).
constexpr std::array<std::string_view, 8> kColors{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b8a300"};
std::string color(size_t n) { return std::string(kColors[n % kColors.size()]); }

std::string number(double v) { return fixed(v, 1); }

// Control characters become spaces.
std::string svg_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
    }
  }
  return out;
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + std::string(anchor) + "\">" + svg_text(text) +
         "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, std::string_view style) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) + "\" class=\"" +
         std::string(style) + "\"/>\n";
}

struct Box {
  double x, y, width, height;
};

std::string box(const Box& b, size_t kind, const std::string& title) {
  const auto& [x, y, width, height] = b;
  return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(std::max(width, 0.5)) + "\" height=\"" + number(height) +
         "\" fill=\"" + color(kind) + "\"><title>" + svg_text(title) + "</title></rect>\n";
}

std::string open_svg(double width, double height) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " + number(height) + "\" width=\"" + number(width) +
         "\" role=\"img\">\n";
}

// Draws names in a row under a picture.
std::string legend(const std::vector<std::string>& names, double x, double y, double step) {
  std::string svg;
  for (size_t n = 0; n < names.size(); ++n) {
    svg += box({x + step * static_cast<double>(n), y - 9, 10, 10}, n, names[n]);
    svg += text_at(x + 14 + step * static_cast<double>(n), y, "start", names[n]);
  }
  return svg;
}

// A step of 1, 2 or 5 times a power of ten that cuts `most` into about five.
double round_step(double max) {
  const double raw = std::max(max, 1e-9) / 5, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double step : {1.0, 2.0, 5.0})
    if (raw <= step * power) return step * power;
  return 10 * power;
}

constexpr double kWidth = 860, kLeft = 60, kRight = 200, kTop = 12;

}  // namespace

std::string curve_svg(const std::vector<Series>& series, double limit, const std::string& limit_name) {
  constexpr double kHeight = 380, kBottom = 340;
  double low = 1e300, high = 1, max = limit;
  for (const Series& s : series)
    for (const auto& [x, y] : s.points) low = std::min(low, x), high = std::max(high, x), max = std::max(max, y);
  if (low > high) return "";
  const double span = std::max(std::log2(high / low), 1.0);
  const auto x_of = [&](double x) { return kLeft + (kWidth - kLeft - kRight) * std::log2(x / low) / span; };
  const double step = round_step(max), top = std::max(step, std::ceil(max / step) * step);
  const auto y_of = [&](double y) { return kBottom - (kBottom - kTop) * y / top; };
  std::string svg = open_svg(kWidth, kHeight);
  for (double y = 0; y <= top * 1.001; y += step)
    svg += line(kLeft, y_of(y), kWidth - kRight, y_of(y), "grid") + text_at(kLeft - 6, y_of(y) + 4, "end", fixed(y, step < 1 ? 2 : 0));
  for (double x = low; x <= high * 1.001; x *= 16) svg += text_at(x_of(x), kBottom + 16, "middle", human_bytes(static_cast<uint64_t>(x)));
  svg += text_at(kLeft - 6, kBottom + 32, "start", "GB/s by size of the copy");
  if (limit > 0)
    svg += line(kLeft, y_of(limit), kWidth - kRight, y_of(limit), "limit") +
           text_at(kWidth - kRight + 6, y_of(limit) + 4, "start", limit_name);
  for (size_t n = 0; n < series.size(); ++n) {
    std::string points;
    for (const auto& [x, y] : series[n].points) points += number(x_of(x)) + "," + number(y_of(y)) + " ";
    svg += "<polyline points=\"" + points + "\" fill=\"none\" stroke=\"" + color(n) + "\" stroke-width=\"1.8\"" +
           (n >= kColors.size() ? " stroke-dasharray=\"5 3\"" : "") + "><title>" + svg_text(series[n].name) + "</title></polyline>\n";
    const double y = kTop + 34 + 16 * static_cast<double>(n);
    svg += box({kWidth - kRight + 8, y - 9, 10, 10}, n, series[n].name) + text_at(kWidth - kRight + 22, y, "start", series[n].name);
  }
  return svg + "</svg>\n";
}

std::string bars_svg(const std::vector<Bar>& bars, const std::vector<std::string>& names) {
  constexpr double kNames = 250, kRow = 20;
  uint64_t max = 1;
  for (const Bar& b : bars) {
    uint64_t sum = 0;
    for (const uint64_t p : b.parts) sum += p;
    max = std::max(max, sum);
  }
  const double height = kTop + kRow * static_cast<double>(bars.size()) + 34;
  std::string svg = open_svg(kWidth, height);
  for (size_t n = 0; n < bars.size(); ++n) {
    const double y = kTop + kRow * static_cast<double>(n);
    double x = kNames;
    uint64_t sum = 0;
    svg += text_at(kNames - 8, y + 12, "end", bars[n].name);
    for (size_t p = 0; p < bars[n].parts.size(); ++p) {
      const double width = (kWidth - kNames - 90) * static_cast<double>(bars[n].parts[p]) / static_cast<double>(max);
      if (bars[n].parts[p] > 0) svg += box({x, y, width, kRow - 5}, p, names[p] + ": " + duration(bars[n].parts[p]));
      x += width;
      sum += bars[n].parts[p];
    }
    svg += text_at(x + 6, y + 12, "start", duration(sum));
  }
  return svg + legend(names, kNames, height - 10, 150) + "</svg>\n";
}

std::string timeline_svg(const std::vector<Span>& spans, const std::vector<std::string>& lanes, const std::vector<std::string>& kinds) {
  constexpr double kNames = 90, kRow = 30;
  uint64_t end = 1;
  for (const Span& s : spans) end = std::max(end, s.end_ns);
  const double height = kTop + kRow * static_cast<double>(lanes.size()) + 52;
  const auto x_of = [&](double ns) { return kNames + (kWidth - kNames - 20) * ns / static_cast<double>(end); };
  std::string svg = open_svg(kWidth, height);
  for (size_t l = 0; l < lanes.size(); ++l) svg += text_at(kNames - 8, kTop + kRow * static_cast<double>(l) + 16, "end", lanes[l]);
  for (const Span& s : spans)
    svg += box({x_of(static_cast<double>(s.begin_ns)), kTop + kRow * static_cast<double>(s.lane),
                x_of(static_cast<double>(s.end_ns)) - x_of(static_cast<double>(s.begin_ns)), kRow - 8},
               s.kind, s.label + ": " + duration(s.end_ns - s.begin_ns));
  const double axis = kTop + kRow * static_cast<double>(lanes.size()), step = round_step(static_cast<double>(end));
  for (double t = 0; t <= static_cast<double>(end); t += step)
    svg += line(x_of(t), axis, x_of(t), axis + 4, "grid") + text_at(x_of(t), axis + 16, "middle", duration(static_cast<uint64_t>(t)));
  return svg + legend(kinds, kNames, height - 10, 120) + "</svg>\n";
}

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
