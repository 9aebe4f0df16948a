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

enum class InspectView : uint8_t { kOutline, kSummary, kTree, kKeys, kChunks, kFiles };

// `depth`: of the outline; nullopt: what fits a screen.
void inspect_text(const InspectResult& found, InspectView view, std::optional<size_t> depth, const Context& context);
// `more` adds members at the end.
void inspect_json(
    const InspectResult& found, const std::function<void(std::string_view)>& write,
    const std::function<void(JsonWriter&)>& more = [](JsonWriter&) {});
// A self-contained HTML page: the summary, where the bytes lie in each file, how each tensor is sharded.
std::string inspect_html(const InspectResult& found);

// The first line of an answer, and the rest of its summary; each line ends with a newline.
std::string headline(const InspectResult& found);
std::string summary_text(const InspectResult& found);

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
