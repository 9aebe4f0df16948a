#include "maps/selected.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace dcp::maps {
namespace {

void name_sources(IndexMap& map, const std::vector<TensorId>& ids) {
  for (IndexBlock& b : map.blocks)
    if (b.source != IndexBlock::kZeros) b.source = ids[b.source];
}

}  // namespace

SelectOptions before_map(SelectOptions select) {
  select.add_root.clear();
  select.no_extra_states = true;  // no map has them
  select.dtypes = {};
  return select;
}

std::vector<Source> sources_of(const Catalog& catalog, std::span<const Parameter> parameters) {
  std::vector<Source> sources;
  for (const Parameter& p : parameters) {
    const dcp::Tensor& t = catalog.tensors[p.tensor];
    const Dims dims = catalog.dims(t);
    sources.push_back({.key = p.key, .dtype = t.dtype, .shape = {dims.begin(), dims.end()}});
  }
  return sources;
}

std::vector<Source> as_sources(const std::vector<IndexMap>& made) {
  std::vector<Source> sources;
  for (const IndexMap& m : made) sources.push_back({.key = m.key, .dtype = m.dtype, .shape = m.shape});
  return sources;
}

Resolved resolve_selected(const ModelMap& map, Config config, const ResolveOptions& options, const Catalog& catalog,
                          std::span<const Parameter> parameters) {
  std::vector<TensorId> ids;
  for (const Parameter& p : parameters) ids.push_back(p.tensor);
  Resolved out = resolve(map, std::move(config), options, sources_of(catalog, parameters), Limits());
  for (IndexMap& m : out.targets) name_sources(m, ids);
  for (Tie& t : out.ties) {
    name_sources(t.tensor, ids);
    name_sources(t.same_as, ids);
  }
  for (uint32_t& s : out.left_out) s = ids[s];
  return out;
}

Selection select_mapped(const Catalog& derived, const SelectOptions& options, Selection before, std::span<const BlobId> used) {
  SelectOptions last;
  last.add_root = options.add_root;
  last.dtypes = options.dtypes;
  Selection after = select_keys(derived, last);
  after.root = std::move(before.root);
  after.stripped_root = std::move(before.stripped_root);
  after.joined_pieces = before.joined_pieces;
  after.unmatched = std::move(before.unmatched);
  after.dropped_by_rules = std::move(before.dropped_by_rules);
  after.dropped_non_model = std::move(before.dropped_non_model);
  after.dropped_top = std::move(before.dropped_top);
  after.dropped_outside_root = std::move(before.dropped_outside_root);
  after.dropped_blobs = std::move(before.dropped_blobs);
  for (const Entry& e : before.entries)
    if (e.is_blob() && !std::ranges::binary_search(used, e.blob())) after.dropped_blobs.push_back(e.blob());
  after.dropped_states = before.dropped_states;
  after.renamed = before.renamed;
  after.unmapped = std::move(before.unmapped);
  return after;
}

}  // namespace dcp::maps
