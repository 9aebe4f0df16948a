// Renders `inspect`: text for people, a JSON document for programs, a page with pictures.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/inspect.h"
#include "base/json.h"
#include "line/context.h"
#include "report/findings.h"

namespace dcp::cmd {

enum class InspectView : uint8_t { kOutline, kSummary, kTree, kKeys, kChunks, kFiles, kRanks };
enum class SortBy : uint8_t { kName, kSize };

struct InspectStyle {
  InspectView view = InspectView::kOutline;
  std::optional<size_t> depth;  // of the outline; nullopt: what fits a screen
  SortBy sort = SortBy::kName;
};
void inspect_text(const InspectResult& found, const InspectStyle& style, const Context& context);
// `more` adds members at the end.
void inspect_json(
    const InspectResult& found, const std::function<void(std::string_view)>& write,
    const std::function<void(JsonWriter&)>& more = [](JsonWriter&) {});
// A self-contained HTML page: the summary, where the bytes lie in each file, how each tensor is sharded.
std::string inspect_html(const InspectResult& found);

// At most six lines, of which the first says what is there; each line ends with a newline. The findings stand after the first.
std::vector<std::string> header_lines(const InspectResult& found);
// What else there is to say.
std::string details_text(const InspectResult& found);

// What each rank holds of what is shown; where files have no ranks, each file.
struct Holding {
  std::string who;  // "3", or the name of a file
  bool is_rank = false;
  uint64_t tensor_bytes = 0, tensors = 0, objects = 0;
};
std::vector<Holding> holdings_of(const InspectResult& found);
void print_holdings(std::vector<Holding> holdings, SortBy sort, const Context& context);
void holdings_json(JsonWriter& json, const std::vector<Holding>& holdings);  // the member "ranks"

// Keys under the components of their paths, a heading for each new component above the leaf.
struct TreeRow {
  size_t level = 0;
  std::string label;           // escaped
  std::optional<Entry> entry;  // nullopt: a heading
};
// In natural order: layers.2 before layers.10.
std::vector<TreeRow> tree_of(const Selection& selection);

// Entries in natural order of their names.
std::vector<Entry> sorted_entries(const Selection& selection);

std::string part_text(const PathPart& p);  // escaped

}  // namespace dcp::cmd
