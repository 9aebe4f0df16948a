#include "report/inspect_mapped.h"

#include "base/json.h"
#include "base/text.h"
#include "catalog/box.h"
#include "line/lines.h"
#include "line/problem_words.h"
#include "report/outline.h"
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
    context.print("left out " + counted(answer.left_out.size(), "tensor") + ": " + list_of(answer.left_out, LeftOut::kNamed) + "\n");
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
  JsonWriter json(write);
  json.begin_object().member("schema", "dcpctl.inspect/1").member("path", catalog.path).member("kind", catalog.traits().name);
  map_json(json, answer);
  json.key("tensors").begin_array();
  for (const IndexMap& m : answer.made.targets) {
    json.begin_object().member("key", m.key).member("dtype", facts_of(m.dtype).name).key("shape").begin_array();
    for (const int64_t d : m.shape) json.value(d);
    json.end_array().member("bytes", bytes_of(m)).end_object();
  }
  json.end_array().key("ties").begin_array();
  for (const maps::Tie& t : answer.made.ties) json.begin_object().member("key", t.tensor.key).member("same_as", t.same_as.key).end_object();
  json.end_array().key("findings").begin_array();
  for (const Problem& p : answer.made.problems) finding_json(json, p);
  json.end_array().end_object();
  json.finish();
}

}  // namespace dcp::cmd
