// Renders `inspect`: text for people, a JSON document for programs, a page with pictures.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/inspect.h"
#include "app/stats.h"
#include "base/json.h"
#include "line/context.h"
#include "report/fields.h"
#include "report/findings.h"
#include "report/page/page.h"

namespace dcp::cmd {

enum class InspectView : uint8_t { kOutline, kSummary, kTree, kKeys, kChunks, kFiles, kRanks };
enum class SortBy : uint8_t { kName, kSize };

struct InspectStyle {
  InspectView view = InspectView::kOutline;
  std::optional<size_t> depth;  // of the outline; nullopt: what fits a screen
  SortBy sort = SortBy::kName;
  size_t top = 0;  // the largest tensors alone, so many; 0: another view
};
// A row for each key, or with `top` for each of these tensors.
void inspect_csv(const InspectResult& found, const InspectStyle& style, const Context& context);
// The same for scripts that name their fields.
inline const std::vector<std::string_view> kInspectFields{"key",      "kind",   "dtype", "shape",   "elements", "bytes",
                                                          "sharding", "chunks", "files", "part_of", "value",    "path"};
void inspect_rows(const InspectResult& found, const InspectStyle& style, const FieldFlags& fields, const Context& context);
void inspect_text(const InspectResult& found, const InspectStyle& style, const Context& context);
// `more` adds members at the end.
void inspect_json(
    const InspectResult& found, const std::function<void(std::string_view)>& write,
    const std::function<void(JsonWriter&)>& more = [](JsonWriter&) {});
// A page (report/page/page.h): the bytes by prefix, which rank holds what, what lies where in each file.
// What a command has found out beside that.
struct InspectMore {
  std::string command = "dcpctl inspect", verdict{}, note{};
  std::string_view tone{};
  Card checked{.label = "data", .value = "not read", .note = "verify reads it"};
  const StatsResult* stats = nullptr;
};
std::string inspect_html(const InspectResult& found, const InspectMore& more = {});
std::vector<Card> inspect_cards(const InspectResult& found);

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
// Keys of which the largest holds more than the others.
struct HeldMost {
  std::string keys;  // escaped; several in a row, as an outline has them
  uint64_t bytes = 0, beyond_mean = 0;
  bool is_alone = false;  // nobody else holds any of it
};
struct Holdings {
  std::vector<Holding> all;
  std::vector<HeldMost> most;  // of the largest, if it holds much more than the mean; the greatest excess first
};
Holdings holdings_of(const InspectResult& found);
void print_holdings(Holdings holdings, SortBy sort, const Context& context);
void holdings_json(JsonWriter& json, const Holdings& holdings);  // the members "ranks" and "held_most"

// Tensors by the bytes of their elements, at most so many.
std::vector<Entry> largest_tensors(const InspectResult& found, size_t count);

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
