// The picture of a map at work: for each tensor that it makes, the tensors that it is made of, in the colours of the parts that they become.
#include <algorithm>
#include <set>

#include "base/quantity.h"
#include "catalog/box.h"
#include "html.h"
#include "inspect_mapped.h"
#include "lines.h"
#include "problem_words.h"

namespace dcp::cmd {
namespace {

// What a browser still scrolls through.
constexpr size_t kMaxTensors = 20'000, kMaxBlocks = 256, kMaxSources = 16;

constexpr std::string_view kMappedStyle =
    "td{vertical-align:top}svg{width:120px;height:40px;background:var(--faint)}rect{stroke:#0005;stroke-"
    "width:.5;vector-effect:non-scaling-stroke}"
    "i{display:inline-block;width:1em;height:1em;margin-right:.4em}.bad{color:#c33}";

// Neighbours get colours far apart: the golden angle.
std::string colour_of(size_t i) { return "hsl(" + std::to_string(i * 137 % 360) + ",55%,55%)"; }

class MappedPage {
 public:
  explicit MappedPage(const InspectResult& found) : c_(found.catalog), answer_(*found.map) {}

  std::string html() {
    const maps::Resolved& made = answer_.made;
    body_ = "<p>From the " + std::string(maps::name_of(made.from)) + " side of " + html_text(answer_.map.name) +
            (answer_.to ? ", and on by " + html_text(answer_.to->name) : "") + "</p>\n";
    for (const std::string& n : made.notes) body_ += "<p>note: " + html_text(n) + "</p>\n";
    for (const Problem& p : made.problems) body_ += "<p class=\"bad\">" + html_text(to_line(worded(p))) + "</p>\n";
    body_ += "<table><tr><th>in the checkpoint<th>shape<th>becomes<th><th>dtype<th>shape</tr>\n";
    for (size_t n = 0; n < std::min(made.targets.size(), kMaxTensors); ++n) row(made.targets[n]);
    for (const maps::Tie& t : made.ties)
      body_ += "<tr><td>" + html_text(t.tensor.key) + "<td><td colspan=\"4\">must be the same as " + html_text(t.same_as.key) + "</tr>\n";
    for (const uint32_t t : made.left_out) body_ += "<tr><td>" + source(t) + "<td colspan=\"4\">left out</tr>\n";
    for (const std::string& key : made.not_made)
      body_ += "<tr><td class=\"bad\">nothing<td><td>" + html_text(key) + "<td colspan=\"3\"></tr>\n";
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
      body_ += "<tr><td>";
      if (i < shown) body_ += "<i style=\"background:" + colour_of(i) + "\"></i>" + source(sources[i]);
      else body_ += sources.empty() ? "nothing<td>" : "and " + grouped(sources.size() - shown) + " more<td>";
      if (i == 0) {
        const std::string span = "<td rowspan=\"" + std::to_string(rows) + "\">";
        body_ +=
            span + html_text(m.key) + span + picture(m, sources) + span + std::string(facts_of(m.dtype).name) + span + shape_text(m.shape);
      }
      body_ += "</tr>\n";
    }
  }

  // Its parts on its last two dims, seen from above.
  static std::string picture(const IndexMap& m, const std::vector<TensorId>& sources) {
    if (m.shape.empty() || m.blocks.size() > kMaxBlocks || volume(m.shape) == 0) return {};
    std::string text = "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\">";
    for (const IndexBlock& b : m.blocks) {
      const auto side = [&](size_t d) {  // "begin", "length" in thousandths
        int64_t reach = 1;
        for (const IndexAxis& a : b.axes)
          if (a.target_dim == d) reach += (a.size - 1) * a.target_step;
        const auto at = [&](int64_t n) { return fixed(1000.0 * static_cast<double>(n) / static_cast<double>(m.shape[d]), 2); };
        return std::pair(at(b.target_at[d]), at(reach));
      };
      const size_t last = m.shape.size() - 1;
      const auto down = m.shape.size() > 1 ? side(most_cut(m)) : std::pair<std::string, std::string>("0", "1000");
      const auto across = m.shape.size() > 1 && most_cut(m) == last ? side(last - 1) : side(last);
      const auto of = static_cast<size_t>(std::ranges::find(sources, b.source) - sources.begin());
      text += "<rect x=\"" + across.first + "\" y=\"" + down.first + "\" width=\"" + across.second + "\" height=\"" + down.second +
              "\" fill=\"" + (b.source == IndexBlock::kZeros ? "none" : colour_of(of)) + "\"/>";
    }
    return text + "</svg>";
  }

  static size_t most_cut(const IndexMap& m) {
    size_t best = 0, most = 0;
    for (size_t d = 0; d < m.shape.size(); ++d) {
      std::set<int64_t> begins;
      for (const IndexBlock& b : m.blocks) begins.insert(b.target_at[d]);
      if (begins.size() > most) best = d, most = begins.size();
    }
    return best;
  }

  const Catalog& c_;
  const MapAnswer& answer_;
  std::string body_;
};

}  // namespace

std::string inspect_mapped_html(const InspectResult& found) { return MappedPage(found).html(); }

}  // namespace dcp::cmd
