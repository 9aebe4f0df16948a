#include "report/inspect_mapped.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "catalog/box.h"
#include "line/lines.h"
#include "line/problem_words.h"
#include "report/outline.h"
#include "report/page/page.h"
#include "report/selection_report.h"
#include "request/map_flags.h"
#include "request/source.h"

namespace dcp::cmd {
namespace {

uint64_t bytes_of(const IndexMap& m) { return static_cast<uint64_t>(volume(m.shape)) * dcp::bytes_of(m.dtype); }

// The targets as keys of a checkpoint, of which nothing is stored.
Catalog catalog_of(const std::vector<IndexMap>& targets) {
  Catalog c;
  for (const IndexMap& m : targets) {
    c.order.push_back(KeyRef::tensor_at(c.tensors.size()));
    c.tensors.push_back({.key = c.strings.intern(m.key),
                         .dtype_name = c.strings.intern(facts_of(m.dtype).name),
                         .path = {},
                         .dtype = m.dtype,
                         .rank = static_cast<uint8_t>(m.shape.size()),
                         .dims_at = c.numbers.size()});
    c.numbers.insert(c.numbers.end(), m.shape.begin(), m.shape.end());
  }
  return c;
}

void print_outline(const std::vector<IndexMap>& targets, const Context& context) {
  const Catalog catalog = catalog_of(targets);
  const std::vector<OutlineRow> rows = outline_of(catalog, select_keys(catalog, {}), {});
  print_table(context, {false, false, false, true, true}, LongNames::kOwnLine, [&](const auto& add) {
    for (const OutlineRow& row : rows) {
      if (!row.example) {
        add({row.label, counted(row.tensors, "tensor"), "", "", human_bytes(row.bytes)});
        continue;
      }
      const Tensor& t = catalog.tensors[row.example->tensor()];
      add({row.label, std::string(catalog.strings[t.dtype_name]), shape_text(catalog.dims(t)),
           row.keys() > 1 ? "x" + grouped(row.keys()) : "", human_bytes(row.bytes)});
    }
  });
}

// What a browser still scrolls through.
constexpr size_t kMaxTensors = 20'000, kMaxBlocks = 256, kMaxSources = 16, kMaxSpans = 32;

class MappedPage {
 public:
  MappedPage(const InspectResult& found, JsonWriter& json) : c_(found.catalog()), answer_(*found.map), json_(json) {}

  void write() {
    const maps::Mapping& made = answer_.made;
    json_.begin_object().member("type", "moves").key("notes").begin_array();
    for (const std::string& n : made.notes) json_.value("note: " + escaped(n));
    if (made.targets.size() > kMaxTensors)
      json_.value(grouped(made.targets.size() - kMaxTensors) + " more tensors are not in this page; --include narrows the choice");
    json_.end_array().key("rows").begin_array();
    for (size_t n = 0; n < std::min(made.targets.size(), kMaxTensors); ++n) row(made.targets[n]);
    for (const maps::Tie& t : made.ties) row(escaped(t.tensor.key), "must be the same as " + escaped(t.same_as.key), "");
    for (const uint32_t t : made.left_out) {
      json_.begin_object().member("note", escaped(c_.key(c_.tensors[t])) + " " + shape_text(c_.dims(c_.tensors[t])) + ": left out");
      json_.key("of").begin_array().end_array().end_object();
    }
    for (const std::string& key : made.not_made) row(escaped(key), "nothing", "bad");
    json_.end_array().end_object();
  }

 private:
  void row(const std::string& key, const std::string& note, std::string_view tone) {
    json_.begin_object().member("key", key).member("note", note).member("tone", tone).key("of").begin_array().end_array().end_object();
  }

  void row(const IndexMap& m) {
    std::vector<TensorId> sources;  // in the order of their parts
    for (const IndexBlock& b : m.blocks)
      if (b.source != IndexBlock::kZeros && std::ranges::find(sources, b.source) == sources.end()) sources.push_back(b.source);
    const size_t shown = std::min(sources.size(), kMaxSources);
    json_.begin_object().member("key", escaped(m.key)).member("dtype", facts_of(m.dtype).name).member("shape", m.shape);
    json_.key("parts");
    made(m, sources);
    json_.key("of").begin_array();
    for (size_t i = 0; i < shown; ++i) {
      const Tensor& t = c_.tensors[sources[i]];
      json_.begin_object().member("key", escaped(c_.key(t))).member("shape", c_.dims(t)).key("parts");
      taken(m, sources[i], i);
      json_.end_object();
    }
    json_.end_array();
    if (shown < sources.size()) json_.member("more", uint64_t{sources.size() - shown});
    json_.end_object();
  }

  // Where the parts of a tensor lie in it.
  void made(const IndexMap& m, const std::vector<TensorId>& sources) {
    std::vector<Part> parts;
    for (const IndexBlock& b : m.blocks) {
      const auto of = std::ranges::find(sources, b.source) - sources.begin();
      parts.push_back({.source = b.source == IndexBlock::kZeros ? int64_t{-1} : int64_t{of}, .dims = {}});
      for (size_t d = 0; d < m.shape.size(); ++d) parts.back().dims.push_back(spans_of(b, d, false));
    }
    picture(m.shape, parts);
  }

  // Where the parts that it takes of a source lie in that.
  void taken(const IndexMap& m, TensorId source, size_t number) {
    const auto dims = c_.dims(c_.tensors[source]);
    std::vector<Part> parts;
    for (const IndexBlock& b : m.blocks) {
      if (b.source != source) continue;
      parts.push_back({.source = static_cast<int64_t>(number), .dims = {}});
      for (size_t d = 0; d < dims.size(); ++d) parts.back().dims.push_back(spans_of(b, d, true));
    }
    picture(dims, parts);
  }

  using Spans = std::vector<std::pair<int64_t, int64_t>>;  // begins and lengths
  struct Part {
    int64_t source = -1;  // its number; -1: zeros
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

  // On the two dims that are cut most, seen from above: of each part its source, then top, height, left and width in thousandths.
  void picture(Dims shape, const std::vector<Part>& parts) {
    json_.begin_array();
    if (!shape.empty() && parts.size() <= kMaxBlocks && volume(shape) > 0) rectangles(shape, parts);
    json_.end_array();
  }

  void rectangles(Dims shape, const std::vector<Part>& parts) {
    if (parts.empty()) return;
    const auto [down, across] = most_cut(shape, parts);
    const auto at = [](int64_t n, int64_t of) { return std::round(1e5 * static_cast<double>(n) / static_cast<double>(of)) / 100; };
    for (const Part& p : parts)
      for (const auto& [y, height] : down ? p.dims[*down] : Spans{{0, 1}})
        for (const auto& [x, width] : p.dims[across]) {
          json_.begin_array().value(p.source).value(at(y, down ? shape[*down] : 1)).value(at(height, down ? shape[*down] : 1));
          json_.value(at(x, shape[across])).value(at(width, shape[across])).end_array();
        }
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
  JsonWriter& json_;
};

}  // namespace

void inspect_mapped_text(const InspectResult& found, InspectView view, Context& context) {
  const Catalog& catalog = found.catalog();
  const MapAnswer& answer = *found.map;
  const maps::Mapping& made = answer.made;
  uint64_t bytes = 0;
  for (const IndexMap& m : made.targets) bytes += bytes_of(m);
  context.print(escaped(catalog.path) + ", " + applied_maps(answer) + ": " + counted(made.targets.size(), "tensor") + ", " +
                human_bytes(bytes) + "\n");
  for (const std::string& n : made.notes) context.print("note: " + escaped(n) + "\n");
  if (!answer.left_out.empty())
    context.print("left out " + counted(answer.left_out.size(), "tensor") + ": " + folded_names(answer.left_out) + "\n");
  if (!made.not_made.empty()) context.print("not written, because the source has no data for it: " + list_of(made.not_made) + "\n");
  for (const maps::Tie& t : made.ties)
    context.print("must be the same: " + shortened(t.tensor.key) + " and " + shortened(t.same_as.key) + "\n");
  if (view == InspectView::kKeys)
    print_table(context, {false, false, false, true}, LongNames::kOnTheLine, [&](const auto& add) {
      for (const IndexMap& m : made.targets)
        add({shortened(m.key), std::string(facts_of(m.dtype).name), shape_text(m.shape), human_bytes(bytes_of(m))});
    });
  if (view == InspectView::kOutline) print_outline(made.targets, context);
}

void inspect_mapped_json(const InspectResult& found, const std::function<void(std::string_view)>& write) {
  const Catalog& catalog = found.catalog();
  const MapAnswer& answer = *found.map;
  json_document(write, [&](JsonWriter& json) {
    json.member("schema", "dcpctl.inspect/1").member("path", catalog.path).member("kind", catalog.traits().name);
    map_json(json, answer);
    json.key("tensors").begin_array();
    for (const IndexMap& m : answer.made.targets) {
      json.begin_object().member("key", m.key).member("dtype", facts_of(m.dtype).name);
      json.member("shape", m.shape).member("bytes", bytes_of(m)).end_object();
    }
    json.end_array().key("ties").begin_array();
    for (const maps::Tie& t : answer.made.ties)
      json.begin_object().member("key", t.tensor.key).member("same_as", t.same_as.key).end_object();
    json.end_array().key("findings").begin_array();
    for (const Problem& p : answer.made.problems) finding_json(json, p);
    json.end_array();
  });
}

// The picture of a map at work: for each tensor that it makes, the tensors that it is made of, in the colours of the parts that they become.

std::string inspect_mapped_html(const InspectResult& found) {
  const maps::Mapping& made = found.map->made;
  const bool fits = made.problems.empty();
  PageHead head{.command = "dcpctl inspect --map",
                .title = escaped(found.catalog().path),
                .verdict = escaped(applied_maps(*found.map)) + (fits ? "" : ": it does not fit this checkpoint"),
                .tone = fits ? "good" : "bad",
                .cards = {{.label = "kind", .value = std::string(found.catalog().traits().words)},
                          {.label = "made", .value = counted(made.targets.size(), "tensor")}},
                .findings = &made.problems};
  const auto add = [&](const char* label, size_t n, std::string_view tone) {
    if (n > 0) head.cards.push_back({.label = label, .value = counted(n, "tensor"), .tone = tone});
  };
  add("tied", made.ties.size(), "");
  add("left out", made.left_out.size(), "warn");
  add("not made", made.not_made.size(), "bad");
  return page_html(head, [&](JsonWriter& json) { MappedPage(found, json).write(); });
}

}  // namespace dcp::cmd
