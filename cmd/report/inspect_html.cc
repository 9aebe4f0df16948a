// The picture of a checkpoint: its files, and how its tensors are cut into chunks, as SVG in a page.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>

#include "base/problem.h"
#include "base/text.h"
#include "catalog/cover.h"
#include "catalog/placements.h"
#include "line/problem_words.h"
#include "report/html.h"
#include "report/inspect_text.h"

namespace dcp::cmd {
namespace {

// What a browser still scrolls through. Beyond it the page says what it leaves out.
constexpr uint64_t kMaxRows = 20'000;
constexpr uint64_t kMaxBoxes = 60'000;
constexpr uint32_t kMaxBoxesOfOne = 4'096;
constexpr size_t kMaxStretches = 400;  // of one file
constexpr size_t kMaxFiles = 2'000;

constexpr std::string_view kStyle =
    "svg{display:block;background:var(--faint)}rect{stroke:#0005;stroke-width:.5;vector-effect:non-scaling-stroke}"
    ".files svg{width:60vw;max-width:50em;height:14px}.cut svg{width:120px;height:28px}.files rect{stroke:none}"
    "@media(max-width:60em){table{display:block;overflow-x:auto}td{white-space:nowrap}}"
    ".head td{font-weight:600;border:0;padding-top:8px}.bad{color:#c33}.key i{display:inline-block;width:1em;height:1em;margin:0 .4em 0 "
    "1.2em}";

std::string number(uint64_t n) { return std::to_string(n); }

// A drawing has a fixed width and height in units, whatever it shows: browsers keep coordinates as float32, and cut off beyond 2^25.
constexpr double kUnits = 1000;
constexpr std::string_view kOpenDrawing = "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\">";

// A stretch of bytes or elements in units, of one side of a drawing. One that nobody would see is drawn a unit long; it then lies above
// others.
struct Side {
  double begin = 0, end = kUnits;
  bool widened = false;

  static Side of(uint64_t begin, uint64_t length, uint64_t whole) {
    const auto at = [&](uint64_t n) { return kUnits * std::min(static_cast<double>(n) / static_cast<double>(whole), 1.0); };
    Side s{.begin = at(begin), .end = at(begin + length)};
    if (s.end - s.begin >= 1) return s;
    s.end = std::min(s.begin + 1, kUnits);
    return {.begin = s.end - 1, .end = s.end, .widened = true};
  }
};

std::string rect(const Side& across, const Side& down, const std::string& fill, const std::string& title) {
  return "<rect x=\"" + fixed(across.begin, 3) + "\" y=\"" + fixed(down.begin, 3) + "\" width=\"" + fixed(across.end - across.begin, 3) +
         "\" height=\"" + fixed(down.end - down.begin, 3) + "\" fill=\"" + fill + "\"><title>" + title + "</title></rect>";
}

// Neighbours get colours far apart: the golden angle.
std::string hue(uint64_t i) { return "hsl(" + number(i * 137 % 360) + ",55%," + (i % 2 ? "45%)" : "60%)"); }

class Page {
 public:
  explicit Page(const InspectResult& found) : found_(found), c_(found.catalog()), selection_(found.selection) {}

  std::string html() {
    std::string summary;
    for (const std::string& line : header_lines(found_)) summary += line;
    summary += details_text(found_);
    body_ = "<pre>" + html_text_lines(summary) + "</pre>\n";
    findings();
    files();
    tensors();
    return html_page(c_.path, kStyle, body_);
  }

 private:
  // The summary's lines are escaped already.
  static std::string html_text_lines(std::string_view lines) {
    std::string text;
    while (!lines.empty()) {
      const size_t end = lines.find('\n');
      text += html_text(lines.substr(0, end)) + "\n";
      lines.remove_prefix(end == lines.npos ? lines.size() : end + 1);
    }
    return text;
  }

  void findings() {
    for (const Problem& p : found_.findings) body_ += "<p class=\"bad\">" + html_text(to_line(worded(p))) + "</p>\n";
  }

  // --- each file as a bar of what lies where, coloured by the first component of the keys' paths
  struct Stretch {
    uint64_t begin, end;
    size_t top;  // in tops_
  };

  size_t top_of(const Entry& e) {
    const auto path = selection_.path(e);
    const std::string name = path.size() > 1 ? part_text(path[0]) : "(top level)";
    const auto [it, fresh] = top_numbers_.try_emplace(name, tops_.size());
    if (fresh) tops_.push_back(name);
    return it->second;
  }

  std::vector<std::vector<Stretch>> stretches() {
    std::vector<std::vector<Stretch>> of(c_.files.size());
    for (const Entry& e : selection_.entries) {
      const size_t top = top_of(e);
      const auto add = [&](ItemId id) {
        const Item& item = c_.items[id];
        if (item.file != kNone) of[item.file].push_back({item.offset, item.offset + item.length, top});
      };
      if (e.is_blob()) {
        add(c_.item_of(e.blob()));
        continue;
      }
      const Tensor& t = c_.tensors[e.tensor()];
      for (uint32_t chunk = 0; chunk < t.chunk_count; ++chunk) add(c_.item_of(t, chunk));
    }
    for (auto& file : of) join(file);
    return of;
  }

  static void join(std::vector<Stretch>& file) {
    std::ranges::sort(file, {}, &Stretch::begin);
    std::vector<Stretch> joined;
    for (const Stretch& s : file) {
      if (!joined.empty() && joined.back().top == s.top && joined.back().end >= s.begin)
        joined.back().end = std::max(joined.back().end, s.end);
      else joined.push_back(s);
    }
    file = std::move(joined);
  }

  void files() {
    const auto of = stretches();
    const auto uses = file_uses(c_);
    uint64_t max = 1;
    for (const DataFile& f : c_.files) max = std::max(max, f.bytes.value_or(0));
    body_ += "<h2>Files</h2>\n<p class=\"key\">";
    for (size_t i = 0; i < tops_.size(); ++i) body_ += "<i style=\"background:" + hue(i) + "\"></i>" + html_text(tops_[i]);
    body_ += "</p>\n<table class=\"files\"><tr><th>file<th class=\"n\">bytes<th class=\"n\">items<th class=\"n\">unreferenced<th></tr>\n";
    for (uint32_t f = 0; f < std::min(c_.files.size(), kMaxFiles); ++f) {
      const auto& bytes = c_.files[f].bytes;
      body_ +=
          "<tr><td>" + html_text(c_.file_name(f)) + "<td class=\"n\">" + (bytes ? grouped(*bytes) : "<span class=\"bad\">missing</span>");
      body_ += "<td class=\"n\">" + grouped(uses[f].items) + "<td class=\"n\">" + (bytes ? grouped(uses[f].unreferenced) : "") + "<td>";
      if (bytes) bar(of[f], max);
      body_ += "</tr>\n";
    }
    body_ += "</table>\n";
    if (c_.files.size() > kMaxFiles) body_ += "<p>" + grouped(c_.files.size() - kMaxFiles) + " more files are not shown.</p>\n";
  }

  void bar(const std::vector<Stretch>& file, uint64_t max) {
    body_ += kOpenDrawing;
    for (const bool widened : {false, true}) {
      for (const Stretch& s : std::span(file).first(std::min(file.size(), kMaxStretches))) {
        const Side across = Side::of(s.begin, s.end - s.begin, max);
        if (across.widened == widened)
          body_ += rect(across, {}, hue(s.top), html_text(tops_[s.top]) + ": bytes " + grouped(s.begin) + " to " + grouped(s.end));
      }
    }
    body_ += "</svg>";
    if (file.size() > kMaxStretches) body_ += grouped(file.size() - kMaxStretches) + " more stretches";
  }

  // --- each tensor with its boxes, coloured by file
  void tensors() {
    body_ += "<h2>Tensors</h2>\n<p>Each box is a chunk, coloured by its file, on the two dims that are split most. Point at one for its "
             "range.</p>\n";
    body_ += "<table><tr><th>key<th>dtype<th>shape<th class=\"n\">bytes<th>sharding<th></tr>\n";
    const auto rows = tree_of(selection_);
    for (const TreeRow& row : std::span(rows).first(std::min<uint64_t>(rows.size(), kMaxRows))) {
      const std::string name = "<td style=\"padding-left:" + number(16 * row.level) + "px\">" + html_text(row.label);
      if (!row.entry) {
        body_ += "<tr class=\"head\">" + name + "</tr>\n";
      } else if (row.entry->is_blob()) {
        body_ += "<tr>" + name + "<td>object</tr>\n";
      } else {
        const Tensor& t = c_.tensors[row.entry->tensor()];
        body_ += "<tr>" + name + "<td>" + html_text(c_.strings[t.dtype_name]) + "<td>" + shape_text(c_.dims(t)) + "<td class=\"n\">" +
                 human_bytes(c_.tensor_bytes(t));
        body_ += "<td>" + sharding_words(c_, t) + "<td class=\"cut\">";
        boxes(t);
        body_ += "</tr>\n";
      }
    }
    body_ += "</table>\n";
    if (rows.size() > kMaxRows)
      body_ += "<p>" + grouped(rows.size() - kMaxRows) + " more rows are not shown; --include narrows the choice.</p>\n";
    if (undrawn_ > 0) body_ += "<p>The chunks of " + grouped(undrawn_) + " tensors are not drawn; --include narrows the choice.</p>\n";
  }

  // The two dims with the most cuts, in their order: down and across. One dim alone lies across.
  std::array<int, 2> drawn_dims(const Tensor& t) const {
    std::vector<std::pair<size_t, int>> cuts;
    for (int d = 0; d < t.rank; ++d) {
      std::set<int64_t> offsets;
      for (uint32_t chunk = 0; chunk < t.chunk_count; ++chunk) offsets.insert(c_.box(t, chunk).offsets[static_cast<size_t>(d)]);
      cuts.emplace_back(offsets.size(), -d);
    }
    std::ranges::sort(cuts, std::greater<>());
    if (cuts.size() == 1) return {-1, 0};
    const int a = -cuts[0].second, b = -cuts[1].second;
    return {std::min(a, b), std::max(a, b)};
  }

  void boxes(const Tensor& t) {
    if (t.rank == 0 || c_.elements(t) == 0 || t.chunk_count > kMaxBoxesOfOne || drawn_ + t.chunk_count > kMaxBoxes) {
      undrawn_ += t.rank > 0 && c_.elements(t) > 0;
      return;
    }
    drawn_ += t.chunk_count;
    const auto [down, across] = drawn_dims(t);
    const auto side = [&](const BoxView& b, int d) {
      const auto of = [d](Dims v) { return static_cast<uint64_t>(v[static_cast<size_t>(d)]); };
      return d < 0 ? Side{} : Side::of(of(b.offsets), of(b.sizes), of(c_.dims(t)));
    };
    body_ += kOpenDrawing;
    for (const bool widened : {false, true}) {
      for (uint32_t chunk = 0; chunk < t.chunk_count; ++chunk) {
        const BoxView b = c_.box(t, chunk);
        const Side x = side(b, across), y = side(b, down);
        if (volume(b.sizes) == 0 || (x.widened || y.widened) != widened) continue;
        const Item& item = c_.items[c_.item_of(t, chunk)];
        const bool lies = item.file != kNone;
        body_ += rect(x, y, lies ? hue(item.file) : "none",
                      slice_text(b.offsets, b.sizes) + " in " +
                          (lies ? html_text(c_.file_name(item.file)) + " at " + grouped(item.offset) : "no file"));
      }
    }
    body_ += "</svg>";
  }

  const InspectResult& found_;
  const Catalog& c_;
  const Selection& selection_;
  std::string body_;
  std::vector<std::string> tops_;
  std::map<std::string, size_t> top_numbers_;
  uint64_t drawn_ = 0, undrawn_ = 0;
};

}  // namespace

std::string inspect_html(const InspectResult& found) { return Page(found).html(); }

}  // namespace dcp::cmd
