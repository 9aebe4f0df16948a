#include "report/outline.h"

#include <algorithm>

#include "base/text.h"
#include "catalog/placements.h"

namespace dcp::cmd {
namespace {

// The components of a final name: a flat key's dots part them, and so do the steps of a path.
std::vector<std::string> words_of(const Selection& selection, const Entry& e) {
  std::vector<std::string> words;
  for (const PathPart& p : selection.path(e)) add_components(p.position >= 0 ? std::to_string(p.position) : std::string(p.name), words);
  return words;
}

// dtype, what it becomes, shape, sharding
std::string kind_of(const Catalog& catalog, const Entry& e) {
  if (e.is_blob()) return "";
  const Tensor& t = catalog.tensors[e.tensor()];
  const std::string becomes = t.dtype_known && e.dtype != t.dtype ? std::string(facts_of(e.dtype).name) : "";
  return std::string(catalog.strings[t.dtype_name]) + "\1" + becomes + "\1" + shape_text(catalog.dims(t)) + "\1" +
         sharding_words(catalog, t);
}

}  // namespace

uint64_t entry_bytes(const Catalog& catalog, const Entry& e) {
  if (!e.is_blob()) return catalog.tensor_bytes(catalog.tensors[e.tensor()]);
  const Item& item = catalog.items[catalog.item_of(e.blob())];
  return item.file == kNone || catalog.traits().in_torch_files ? 0 : item.length;  // in a torch.save file all objects are in one pickle
}

std::vector<FoldedRow> folded_entries(const Catalog& catalog, const Selection& selection, const std::vector<Entry>& entries,
                                      FoldOptions options) {
  Fold fold(options);
  for (uint32_t i = 0; i < entries.size(); ++i)
    fold.add({.words = words_of(selection, entries[i]),
              .kind = kind_of(catalog, entries[i]),
              .is_state = !selection.state.is_model(entries[i].ref),
              .is_object = entries[i].is_blob(),
              .id = i});
  return fold.rows();
}

std::vector<OutlineRow> outline_of(const Catalog& catalog, const Selection& selection, const OutlineOptions& options) {
  const std::vector<Entry>& entries = selection.entries;
  std::vector<OutlineRow> result;
  for (FoldedRow& folded : folded_entries(catalog, selection, entries, {.rows = options.rows, .depth = options.depth})) {
    OutlineRow row{.label = std::move(folded.label), .is_state = folded.is_state, .example = {}};
    for (const uint32_t i : folded.ids) {
      ++(entries[i].is_blob() ? row.objects : row.tensors);
      row.bytes += entry_bytes(catalog, entries[i]);
    }
    if (!folded.is_folded) row.example = entries[folded.ids.front()];
    if (options.values != nullptr && row.keys() == 1 && row.example)
      if (const auto value = options.values->find(row.example->ref); value != options.values->end()) {
        row.label += " = " + escaped(value->second);
        row.has_value = row.objects > 0;
      }
    result.push_back(std::move(row));
  }
  std::ranges::stable_sort(result, [&](const OutlineRow& a, const OutlineRow& b) {
    if (options.by_size && a.bytes != b.bytes) return a.bytes > b.bytes;
    return a.is_state != b.is_state ? b.is_state : natural_less(a.label, b.label);
  });
  return result;
}

}  // namespace dcp::cmd
