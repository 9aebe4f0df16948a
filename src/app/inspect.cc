#include "app/inspect.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <set>

#include "app/model_config.h"
#include "app/resources.h"
#include "app/stages.h"
#include "catalog/structure.h"
#include "catalog/torch_files.h"
#include "items/duplicates.h"
#include "items/idle_parameters.h"
#include "items/item_source.h"
#include "items/unsafe.h"
#include "items/values.h"
#include "maps/apply_map.h"
#include "maps/builtin.h"
#include "maps/run_keys.h"

namespace dcp {

static std::vector<KeyRef> learning_rates(const Selection& selection) {
  std::vector<KeyRef> keys;
  for (const Entry& e : selection.entries)
    if (selection.state.is_optimizers(e.ref) && (e.key.ends_with(".lr") || e.key.ends_with(".learning_rate"))) keys.push_back(e.ref);
  return keys;
}

// What an optimizer keeps of each parameter comes last.
static std::vector<KeyRef> shown_keys(const Selection& selection) {
  std::vector<KeyRef> keys;
  for (const Entry& e : selection.entries) keys.push_back(e.ref);
  std::ranges::stable_partition(keys, [&](KeyRef key) { return !selection.state.is_optimizers(key); });
  // One learning rate of each group of parameters, or of enough of them all: in flat state dicts each parameter has its own.
  constexpr size_t kRates = 64;
  const std::vector<KeyRef> rates = learning_rates(selection);
  const size_t apart = rates.size() / kRates + 1;
  std::set<KeyRef> first;
  for (size_t i = 0; i < rates.size(); i += apart) first.insert(rates[i]);
  if (!rates.empty()) first.insert(rates.back());
  std::ranges::stable_partition(keys, [&](KeyRef key) { return first.contains(key); });
  return keys;
}

// Reads at once what is looked at below, byte items and `valued`: where each read takes long, it is as short as one of them.
static void keep_small(DataFiles& files, std::span<const KeyRef> valued, const StopFlag& stop) {
  const Catalog& catalog = files.catalog();
  std::vector<Item> parts = parts_with_values(catalog, valued);
  if (catalog.traits().has_metadata)
    for (const Blob& b : catalog.blobs)
      if (const Item& item = catalog.items[catalog.item_of(static_cast<BlobId>(&b - catalog.blobs.data()))];
          item.length <= SliceSource::kSmallItem)
        parts.push_back(item);
  files.keep(std::move(parts), stop);
}

void inspect(const InspectRequest& request, World& world, InspectResult& result) {
  const uint64_t cap = take_memory_cap(request.max_memory, world);
  const Opened opened = open({.source = request.source, .ranks = {}, .max_memory = request.max_memory}, cap, world);
  result.opened = opened.found;
  const Catalog& catalog = opened.catalog();
  std::vector<Problem> structure = structure_findings(*result.opened);
  if (request.map.is_given()) {
    SelectOptions select = maps::before_map(request.select);
    select.keep_root = false;  // a map has the model's names
    const Selection selection = select_keys(catalog, select);
    result.map = ask_map(request.map, world,
                         {.catalog = catalog, .selection = selection, .assets = {}, .has_run = !select.model_only && select.root.empty()})
                     .answer;
    if (result.map) {
      for (const std::string& text : result.map->tied) world.events.info(text);
      // a missing file is why a map lacks its tensors
      std::vector<Problem>& problems = result.map->made.problems;
      const auto is_damage = [](const Problem& p) { return p.severity == Severity::kDamage; };
      std::ranges::copy_if(structure, std::inserter(problems, problems.begin()), is_damage);
      return;
    }
  }
  result.findings = std::move(structure);
  const auto add = [&](std::vector<Problem> more) { std::ranges::move(more, std::back_inserter(result.findings)); };
  if (!catalog.single_file) add(inspect_folder(world.store, catalog));
  add(find_unsafe_pickles(catalog));
  DataFiles& files = *opened.files;
  SelectOptions select = request.select;
  if (const auto dtype = select.dtypes.dtype)
    select.dtypes.keeps_float32 = kept_by_family(request.map.config, {catalog.folder}, *dtype, world.store);
  result.selection = select_keys(catalog, select);
  constexpr size_t kValues = 256;
  const std::vector<KeyRef> valued = with_small_values(catalog, shown_keys(result.selection), request.all_values ? SIZE_MAX : kValues);
  keep_small(files, valued, world.stop);
  const Looking looking{
      .workers = reading_workers(0, world, catalog.path), .limits = request.source.limits(), .memory_bytes = memory_left(cap)};
  add(find_unsafe_items(files, catalog, request.look_into_all ? LookInto::kAll : LookInto::kSome, looking, world.stop));
  add(find_idle_parameters(files, catalog, request.source.limits()));
  if (catalog.traits().in_torch_files && !request.source.prefer_rank) {  // what is shown must be the value on all ranks
    std::set<ItemId> shown;
    for (const KeyRef ref : valued)
      if (ref.is_blob()) shown.insert(catalog.item_of(ref.blob()));
    add(find_differing_duplicates(catalog, contents_of(files, catalog, request.source.limits()),
                                  [&](ItemId i) { return shown.contains(i); }));
  }
  result.subclasses = subclasses(files, request.source.limits());
  part_errors(result.findings);
  if (const auto asked = select_for_findings(catalog, request.select))
    result.left_out_findings = drop_left_out(result.findings, catalog, *asked);
  result.unsafe = fold_unsafe(result.findings);
  if (catalog.traits().has_metadata) {  // a trainer's, and no model that others publish in such names
    const std::vector<maps::Parameter> model = maps::model_parameters(result.selection);
    result.names_of = maps::releases_of(maps::keys_of(model), request.source.limits());
  }
  result.values = small_values(files, catalog, request.source.limits(), valued);
}

template <class Map>
static const std::string* text_in(const Map& texts, const typename Map::key_type& key) {
  const auto at = texts.find(key);
  return at == texts.end() ? nullptr : &at->second;
}

const std::string* InspectResult::value_of(KeyRef key) const { return text_in(values, key); }
const std::string* InspectResult::subclass_of(TensorId tensor) const { return text_in(subclasses, tensor); }

InspectSummary summary_of(const Catalog& catalog, const Selection& selection) {
  InspectSummary s;
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) {
      ++s.blobs;
      const Item& item = catalog.items[catalog.item_of(e.blob())];
      if (item.file != kNone && !(catalog.traits().in_torch_files && s.blobs > 1)) s.blob_bytes += item.length;
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    ++s.tensors;
    s.elements += catalog.elements(t);
    s.tensor_bytes += catalog.tensor_bytes(t);
    s.chunks += t.chunk_count;
  }
  return s;
}

std::vector<FileUse> file_uses(const Catalog& catalog) {
  std::vector<FileUse> uses(catalog.files.size());
  std::vector<uint64_t> first(catalog.files.size(), std::numeric_limits<uint64_t>::max());
  for (const Item& i : catalog.items) {
    if (i.file == kNone) continue;
    ++uses[i.file].items;
    uses[i.file].item_bytes += i.length;
  }
  for (ItemId n = 0; n < catalog.chunk_total; ++n)
    if (const Item& i = catalog.items[n]; i.file != kNone) first[i.file] = std::min(first[i.file], i.offset);
  // Bytes of objects, which precede the header of a safetensors file in a DCP folder.
  std::vector<uint64_t> before(catalog.files.size(), 0);
  for (BlobId b = 0; b < catalog.blobs.size(); ++b)
    if (const Item& i = catalog.items[catalog.item_of(b)]; i.file != kNone) before[i.file] += i.length;
  for (uint32_t f = 0; f < uses.size(); ++f) {
    if (catalog.traits().in_torch_files) {
      uses[f].unreferenced = catalog.torch->files[f]->unreferenced_bytes;
      continue;
    }
    // What comes before the tensors of a safetensors file is its header.
    const bool has_header = catalog.files[f].raw && first[f] != std::numeric_limits<uint64_t>::max() && first[f] >= before[f];
    const uint64_t used = uses[f].item_bytes + (has_header ? first[f] - before[f] : 0);
    if (catalog.files[f].bytes && *catalog.files[f].bytes > used) uses[f].unreferenced = *catalog.files[f].bytes - used;
  }
  return uses;
}

}  // namespace dcp
