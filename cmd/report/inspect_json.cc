// The JSON document of `inspect`; its form is fixed: members are only ever added.
#include <algorithm>

#include "base/json.h"
#include "base/problem.h"
#include "catalog/mcore.h"
#include "catalog/placements.h"
#include "line/problem_words.h"
#include "report/inspect_text.h"
#include "request/source.h"

namespace dcp::cmd {
namespace {

void path_json(JsonWriter& json, const Selection& selection, const Entry& e) {
  json.key("path").begin_array();
  for (const PathPart& p : selection.path(e))
    if (p.position >= 0) json.value(p.position);
    else json.value(p.name);
  json.end_array();
}

void item_json(JsonWriter& json, const Catalog& catalog, ItemId id) {
  const Item& item = catalog.items[id];
  if (item.file == kNone) return;
  json.member("file", catalog.file_name(item.file)).member("file_offset", item.offset).member("length", item.length);
  if (item.transforms == 0) return;
  if (item.transforms == Item::kDeflated) json.member("transforms", std::array{"deflate"});
  else json.member("transforms", catalog.transforms[item.transforms]);
}

void tensor_json(JsonWriter& json, const InspectResult& found, const Entry& e) {
  const Catalog& catalog = found.catalog();
  const Selection& selection = found.selection;
  const Tensor& t = catalog.tensors[e.tensor()];
  json.begin_object().member("key", e.key);
  if (e.key != catalog.key(t)) json.member("source_key", catalog.key(t));
  path_json(json, selection, e);
  json.member("dtype", catalog.strings[t.dtype_name]);
  if (const std::string* cls = found.subclass_of(e.tensor())) json.member("class", *cls);
  json.member("shape", catalog.dims(t));
  if (const auto shape = mcore_shape(catalog, e.tensor())) json.member("mcore_shape", *shape);
  json.member("bytes", catalog.tensor_bytes(t));
  if (t.dtype_known && e.dtype != t.dtype) json.member("cast_to", facts_of(e.dtype).name);
  if (t.requires_grad) json.member("requires_grad", true);
  if (!selection.state.is_model(e.ref)) json.member("training_state", true);
  json.member("sharding", sharding_words(catalog, t));
  json.key("chunks").begin_array();
  for (uint32_t c = 0; c < t.chunk_count; ++c) {
    json.begin_object().member("offsets", catalog.box(t, c).offsets).member("sizes", catalog.box(t, c).sizes);
    item_json(json, catalog, catalog.item_of(t, c));
    json.end_object();
  }
  json.end_array().end_object();
}

std::string_view why(Sign sign) {
  switch (sign) {
    case Sign::kParamGroups: return "param_groups";
    case Sign::kSlots: return "optimizer_slots";
    case Sign::kName: return "name";
    case Sign::kTensorNames: return "tensor_names";
    case Sign::kSecond: return "parameters";
    case Sign::kRest: return "rest";
    case Sign::kBeside:
    case Sign::kOpen: break;
  }
  return "beside_model";
}

void sums_json(JsonWriter& json, const KeyGroup& g) {
  json.member("keys", g.keys).member("tensors", g.tensors).member("tensor_bytes", g.tensor_bytes).end_object();
}

void state_json(JsonWriter& json, const TrainingState& state) {
  json.key("models").begin_array();
  for (const KeyGroup& m : state.models) {
    json.begin_object().member("root", m.path).member("why", why(m.sign));
    sums_json(json, m);
  }
  json.end_array().key("training_state").begin_array();
  for (const KeyGroup& g : state.groups) {
    json.begin_object().member("path", g.path).member("why", why(g.sign));
    sums_json(json, g);
  }
  json.end_array();
}

void head_json(JsonWriter& json, const InspectResult& found) {
  const Catalog& catalog = found.catalog();
  const Selection& selection = found.selection;
  const Provenance& p = catalog.provenance;
  json.member("schema", "dcpctl.inspect/1").member("path", catalog.path).member("kind", catalog.traits().name);
  json.key("writer").begin_object();
  if (!p.written_by.empty()) json.member(catalog.traits().has_metadata ? "torch" : "form", p.written_by);
  if (p.by_dcpctl) json.member("program", "dcpctl");
  if (!p.format_version.empty()) json.member("format_version", p.format_version);
  if (!p.extra_attributes.empty()) json.member("extra_attributes", p.extra_attributes);
  if (!p.unknown_globals.empty()) json.member("unknown_globals", p.unknown_globals);
  json.end_object();
  if (!p.loads_in.empty()) {
    json.key("loads_in").begin_object().member("torch", p.loads_in).member("why", p.why);
    if (!p.packages.empty()) json.member("packages", p.packages);
    json.end_object();
  }
  const InspectSummary s = summary_of(catalog, selection);
  json.key("summary").begin_object();
  json.member("tensors", s.tensors).member("elements", s.elements).member("tensor_bytes", s.tensor_bytes);
  json.member("blobs", s.blobs)
      .member("blob_bytes", s.blob_bytes)
      .member("chunks", s.chunks)
      .member("files", uint64_t{catalog.files.size()});
  if (const uint32_t world = world_size_shown(catalog)) json.member("world_size", world);
  json.end_object();
  state_json(json, selection.state);
  if (!found.names_of.empty()) json.member("names_of", found.names_of);
  const CastSummary& casts = selection.casts;
  if (!casts.requested) return;
  json.key("cast").begin_object().member("tensors", casts.tensors);
  json.member("bytes_before", casts.bytes_before).member("bytes_after", casts.bytes_after).end_object();
}

}  // namespace

void inspect_json(const InspectResult& found, const std::function<void(std::string_view)>& write,
                  const std::function<void(JsonWriter&)>& more) {
  const Catalog& catalog = found.catalog();
  const Selection& selection = found.selection;
  std::vector<Entry> entries = selection.entries;
  std::ranges::sort(entries, {}, [&](const Entry& e) { return catalog.key(e.ref); });
  json_document(write, [&](JsonWriter& json) {
    head_json(json, found);
    json.key("tensors").begin_array();
    for (const Entry& e : entries)
      if (!e.is_blob()) tensor_json(json, found, e);
    json.end_array().key("blobs").begin_array();
    for (const Entry& e : entries) {
      if (!e.is_blob()) continue;
      json.begin_object().member("key", e.key);
      if (e.key != catalog.key(e.ref)) json.member("source_key", catalog.key(e.ref));
      if (const std::string* value = found.value_of(e.ref)) json.member("value", *value);
      path_json(json, selection, e);
      if (!selection.state.is_model(e.ref)) json.member("training_state", true);
      item_json(json, catalog, catalog.item_of(e.blob()));
      json.end_object();
    }
    json.end_array().key("files").begin_array();
    const std::vector<FileUse> uses = file_uses(catalog);
    for (uint32_t f = 0; f < catalog.files.size(); ++f) {
      json.begin_object().member("name", catalog.file_name(f)).member("bytes", catalog.files[f].bytes);
      json.member("items", uses[f].items).member("unreferenced_bytes", uses[f].unreferenced).end_object();
    }
    json.end_array().key("findings").begin_array();
    for (const Problem& p : found.findings) finding_json(json, p);
    json.end_array();
    unsafe_json(json, found.unsafe);
    more(json);
  });
}

}  // namespace dcp::cmd
