// The picture of a map at work: for each tensor that it makes, the tensors that it is made of, in the colours of the parts that they become.
#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "catalog/box.h"
#include "line/lines.h"
#include "line/problem_words.h"
#include "report/html.h"
#include "report/inspect_mapped.h"
#include "request/map_flags.h"

namespace dcp::cmd {
namespace {

// What a browser still scrolls through.
constexpr size_t kMaxTensors = 20'000, kMaxBlocks = 256, kMaxSources = 16, kMaxSpans = 32;

constexpr std::string_view kMappedStyle =
    "td{vertical-align:top;white-space:nowrap}svg{width:120px;height:40px;background:var(--faint)}rect{stroke:#0005;stroke-"
    "width:.5;vector-effect:non-scaling-stroke}"
    "i{display:inline-block;width:1em;height:1em;margin-right:.4em}.bad{color:#c33}"
    "h1,p,td:first-child,.to{white-space:normal;overflow-wrap:anywhere}"
    // Narrow: the sources of a tensor one below the other, and then the tensor.
    "@media(max-width:60em){thead{display:none}tbody{display:flex;flex-wrap:wrap;border-bottom:1px solid var(--line)}tr{display:contents}"
    "td{border:0}td:first-child,.to{flex:0 0 100%}[rowspan]{order:1}i{float:left;margin-top:.2em}.to::before{content:'\\2192\\a0'}}";

// Neighbours get colours far apart: the golden angle.
std::string colour_of(size_t i) { return "hsl(" + std::to_string(i * 137 % 360) + ",55%,55%)"; }

class MappedPage {
 public:
  explicit MappedPage(const InspectResult& found) : c_(found.catalog()), answer_(*found.map) {}

  std::string html() {
    const maps::Mapping& made = answer_.made;
    body_ = "<p>" + html_text(applied_maps(answer_)) + "</p>\n";
    for (const std::string& n : made.notes) body_ += "<p>note: " + html_text(n) + "</p>\n";
    for (const Problem& p : made.problems) body_ += "<p class=\"bad\">" + html_text(to_line(worded(p))) + "</p>\n";
    body_ += "<table><thead><tr><th>in the checkpoint<th>shape<th><th>becomes<th><th>dtype<th>shape</tr></thead>\n";
    for (size_t n = 0; n < std::min(made.targets.size(), kMaxTensors); ++n) row(made.targets[n]);
    for (const maps::Tie& t : made.ties)
      body_ +=
          "<tbody><tr><td>" + html_text(t.tensor.key) + "<td><td colspan=\"5\">must be the same as " + html_text(t.same_as.key) + "</tr>\n";
    for (const uint32_t t : made.left_out) body_ += "<tbody><tr><td>" + source(t) + "<td colspan=\"5\">left out</tr>\n";
    for (const std::string& key : made.not_made)
      body_ += "<tbody><tr><td class=\"bad\">nothing<td><td><td class=\"to\">" + html_text(key) + "<td colspan=\"3\"></tr>\n";
    body_ += "</table>\n";
    if (made.targets.size() > kMaxTensors)
      body_ += "<p>" + grouped(made.targets.size() - kMaxTensors) + " more tensors are not shown; --include narrows the choice.</p>\n";
    return html_page(c_.path, kMappedStyle, body_);
  }

 private:
  std::string source(TensorId t) const { return html_text(c_.key(c_.tensors[t])) + "<td>" + shape_text(c_.dims(c_.tensors[t])); }

  void row(const IndexMap& m) {
    std::vector<TensorId> sources;  // in the order of their parts
    for (const IndexBlock& b : m.blocks)
      if (b.source != IndexBlock::kZeros && std::ranges::find(sources, b.source) == sources.end()) sources.push_back(b.source);
    const size_t shown = std::min(sources.size(), kMaxSources), rows = std::max<size_t>(shown + (shown < sources.size()), 1);
    for (size_t i = 0; i < rows; ++i) {
      body_ += i == 0 ? "<tbody><tr><td>" : "<tr><td>";
      if (i < shown) body_ += "<i style=\"background:" + colour_of(i) + "\"></i>" + source(sources[i]) + "<td>" + taken(m, sources[i], i);
      else body_ += sources.empty() ? "nothing<td><td>" : "and " + grouped(sources.size() - shown) + " more<td><td>";
      if (i == 0) {
        const std::string rowspan = " rowspan=\"" + std::to_string(rows) + "\">", span = "<td" + rowspan;
        body_ += "<td class=\"to\"" + rowspan + html_text(m.key) + span + made(m, sources) + span + std::string(facts_of(m.dtype).name) +
                 span + shape_text(m.shape);
      }
      body_ += "</tr>\n";
    }
  }

  // Where the parts of a tensor lie in it.
  static std::string made(const IndexMap& m, const std::vector<TensorId>& sources) {
    std::vector<Part> parts;
    for (const IndexBlock& b : m.blocks) {
      const auto of = static_cast<size_t>(std::ranges::find(sources, b.source) - sources.begin());
      parts.push_back({.colour = b.source == IndexBlock::kZeros ? "none" : colour_of(of), .dims = {}});
      for (size_t d = 0; d < m.shape.size(); ++d) parts.back().dims.push_back(spans_of(b, d, false));
    }
    return picture(m.shape, parts);
  }

  // Where the parts that it takes of a source lie in that.
  std::string taken(const IndexMap& m, TensorId source, size_t colour) const {
    const auto dims = c_.dims(c_.tensors[source]);
    std::vector<Part> parts;
    for (const IndexBlock& b : m.blocks) {
      if (b.source != source) continue;
      parts.push_back({.colour = colour_of(colour), .dims = {}});
      for (size_t d = 0; d < dims.size(); ++d) parts.back().dims.push_back(spans_of(b, d, true));
    }
    return picture(dims, parts);
  }

  using Spans = std::vector<std::pair<int64_t, int64_t>>;  // begins and lengths
  struct Part {
    std::string colour;
    std::vector<Spans> dims;
  };

  // Of many small ones, the span from the first to the last.
  static Spans spans_of(const IndexBlock& b, size_t dim, bool in_source) {
    std::vector<std::pair<int64_t, int64_t>> axes;  // steps and sizes
    for (const IndexAxis& a : b.axes)
      if ((in_source ? a.source_dim : a.target_dim) == dim && a.size > 1)
        axes.emplace_back(in_source ? a.source_step : a.target_step, a.size);
    std::ranges::sort(axes);
    Spans spans{{in_source ? b.source_at[dim] : b.target_at[dim], 1}};
    for (const auto& [step, size] : axes) {
      const auto [first, length] = spans.front();
      const int64_t reach = (size - 1) * step + spans.back().first + spans.back().second - first;
      if ((spans.size() == 1 && step == length) || static_cast<size_t>(size) * spans.size() > kMaxSpans) {
        spans = {{first, reach}};
        continue;
      }
      const Spans once = spans;
      for (int64_t i = 1; i < size; ++i)
        for (const auto& [begin, extent] : once) spans.emplace_back(begin + i * step, extent);
    }
    return spans;
  }

  // On the two dims that are cut most, seen from above.
  static std::string picture(Dims shape, const std::vector<Part>& parts) {
    if (shape.empty() || parts.empty() || parts.size() > kMaxBlocks || volume(shape) == 0) return {};
    const auto [down, across] = most_cut(shape, parts);
    const auto at = [](int64_t n, int64_t of) { return fixed(1000.0 * static_cast<double>(n) / static_cast<double>(of), 2); };
    std::string text = "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\">";
    for (const Part& p : parts)
      for (const auto& [y, height] : down ? p.dims[*down] : Spans{{0, 1}})
        for (const auto& [x, width] : p.dims[across])
          text += "<rect x=\"" + at(x, shape[across]) + "\" y=\"" + at(y, down ? shape[*down] : 1) + "\" width=\"" +
                  at(width, shape[across]) + "\" height=\"" + at(height, down ? shape[*down] : 1) + "\" fill=\"" + p.colour + "\"/>";
    return text + "</svg>";
  }

  // The first of the two lies down the picture; of alike ones, the last.
  static std::pair<std::optional<size_t>, size_t> most_cut(Dims shape, const std::vector<Part>& parts) {
    std::vector<std::pair<size_t, size_t>> cuts;  // how often, and the dim
    for (size_t d = 0; d < shape.size(); ++d) {
      std::set<std::pair<int64_t, int64_t>> all;
      for (const Part& p : parts) all.insert(p.dims[d].begin(), p.dims[d].end());
      const bool is_whole = all.size() == 1 && all.begin()->second == shape[d];
      cuts.emplace_back(is_whole ? 0 : all.size(), d);
    }
    std::ranges::sort(cuts, std::greater());
    if (cuts.size() == 1) return {std::nullopt, 0};
    return {std::min(cuts[0].second, cuts[1].second), std::max(cuts[0].second, cuts[1].second)};
  }

  const Catalog& c_;
  const MapAnswer& answer_;
  std::string body_;
};

}  // namespace

std::string inspect_mapped_html(const InspectResult& found) { return MappedPage(found).html(); }

}  // namespace dcp::cmd
