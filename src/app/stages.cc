#include "app/stages.h"

#include <algorithm>
#include <set>

#include "app/fit_map.h"
#include "app/model_config.h"
#include "app/ranked_run.h"
#include "app/resources.h"
#include "base/file_names.h"
#include "base/text.h"
#include "catalog/structure.h"
#include "catalog/torch_files.h"
#include "inputs/run.h"
#include "items/duplicates.h"
#include "items/item_source.h"
#include "maps/apply_map.h"
#include "maps/run_state.h"
#include "plan/layout.h"

namespace dcp {
namespace {

// What a folder of an unfinished save lacks is no damage.
OpenedCatalog read_or_explain(Store& store, const std::string& path, const OpenOptions& options) {
  try {
    return read_checkpoint(store, path, options);
  } catch (const Error& e) {
    const auto unfinished = unfinished_by_name(without_trailing_slashes(path));
    Problem p = e.problem();
    if (!unfinished || class_of(p.id) != ProblemClass::kInput || !p.hint.empty()) throw;
    p.hint = unfinished->what + "; " + unfinished->hint;
    throw Error(std::move(p));
  }
}

OpenedCatalog read_from(Store& store, const SourceRequest& request, World& world, uint64_t memory_bytes, const ShapesOf& shapes_of) {
  OpenOptions options{.limits = request.limits(memory_bytes),
                      .links = request.links(),
                      .prefer_rank = request.prefer_rank,
                      .shards_on_dim = request.shards_on_dim,
                      .replicated = request.replicated,
                      .whole_shapes = {}};
  std::string path = request.path;
  if (!request.step.empty()) {
    std::vector<Step> broken;
    const auto announce = [&] {
      for (const Step& s : broken) world.events.info("skipped: " + world.events.line_of(*s.broken));
    };
    try {
      path = find_step(store, {request.path, request.step, request.pattern}, options, broken);
    } catch (const Error& e) {
      if (e.problem().id == ProblemId::step_in_parts) announce();
      throw;
    }
    announce();
    world.events.info("step: " + escaped(path));
  }
  if (const auto only = request.itself ? std::nullopt : only_checkpoint_below(store, path)) {
    world.events.info("checkpoint: " + escaped(*only) + ", the only one in that folder");
    path = *only;
  }
  OpenedCatalog opened = read_or_explain(store, path, options);
  const Catalog& catalog = opened.catalog;
  const bool has_parts = catalog.traits().of_ranks && catalog.traits().in_torch_files;
  if (request.shards_on_dim && has_parts) {
    // verl and SkyRL write the latter.
    options.whole_shapes = shapes_by_config(catalog, {catalog.folder + "/config.json", catalog.folder + "/huggingface/config.json"}, store);
    if (shapes_of) shapes_of(catalog, options.whole_shapes);
    if (!options.whole_shapes.empty()) opened = read_checkpoint(store, path, options);
  }
  if (request.shards_on_dim && !has_parts)
    world.events.info(world.events.name_of("shards_on_dim") + " has nothing to join in " + escaped(path) +
                      ": it is no folder of torch.save files of ranks");
  if (auto finding = catalog.single_file ? std::nullopt : unfinished_by_name(catalog.folder))
    opened.findings.push_back(std::move(*finding));
  if (request.prefer_rank && !catalog.traits().of_ranks)
    world.events.info(world.events.name_of("prefer_rank") + " has nothing to choose from: every key was written once");
  if (catalog.traits().in_torch_files && catalog.torch->odd_keys.count > 0)
    world.events.info("keys of dicts that are neither text nor integers become text: " + counted(catalog.torch->odd_keys.count, "key") +
                      ", such as " + escaped(catalog.torch->odd_keys.example));
  return opened;
}

// Python cannot read a name that is not text.
void check_text(const Catalog& catalog, const Selection& selection, const Entry& e) {
  bool text = is_pickled_text(e.key);
  for (const PathPart& p : selection.path(e)) text = text && is_pickled_text(p.name);
  if (text) return;
  throw Error(
      with_remedy(make_problem(ProblemId::pickle_unloadable, {.path = catalog.path, .tensor = std::string(e.key), .object = e.is_blob()},
                               "a key that is not UTF-8"),
                  Remedy::kOtherName));
}

// All of them at once.
void refuse_not_strided(const Catalog& catalog, const Selection& selection) {
  std::vector<std::string> keys;
  for (const Entry& e : selection.entries)
    if (!e.is_blob() && !catalog.tensors[e.tensor()].strided) keys.emplace_back(catalog.key(e.ref));
  if (keys.size() > 1) fail(ProblemId::layout_not_strided, {.path = catalog.path}, list_of(keys, 20));
}

SelectOptions with_kept(SelectOptions options, const maps::KeepsFloat32& keeps) {
  options.dtypes.keeps_float32 = keeps;
  return options;
}

}  // namespace

// --- opened

Limits SourceRequest::limits(uint64_t memory_bytes) const {
  Limits limits{.memory_bytes = memory_bytes};
  constexpr uint64_t kMax = uint64_t{1} << 56;  // 16 times as much, and sums with that, stay in 64 bits
  if (max_pickle)
    limits.blob_bytes = limits.decoded_bytes = limits.item_pickle_bytes = limits.archive_pickle_bytes = std::min(*max_pickle, kMax);
  return limits;
}

uint64_t begin_reading(const ReadRequest& request, World& world) {
  join_ranks(request.ranks, world);
  return take_memory_cap(request.max_memory, world);
}

FrozenCatalog open_source(const SourceRequest& request, World& world, uint64_t memory_bytes, const ShapesOf& shapes_of) {
  if (!world.ranks) return freeze(read_from(world.store, request, world, memory_bytes, shapes_of), world.store, request.links());
  RankGroup& group = world.ranks->group;
  const std::unique_ptr<Store> more = request.step.empty() ? group.gather_remote_metadata(world.store, request.path) : nullptr;
  OpenedCatalog mine;
  if (group.leads()) mine = read_from(more ? *more : world.store, request, world, memory_bytes, shapes_of);
  return group.share(std::move(mine), world.store, request.links());
}

void note_warnings(const OpenedCatalog& opened, World& world) {
  for (const Problem& p : opened.findings)
    if (p.severity == Severity::kWarning) world.events.info(world.events.line_of(p));
}

Opened open(ReadRequest request, uint64_t memory_cap, World& world, const ShapesOf& shapes_of) {
  FrozenCatalog found = open_source(request.source, world, memory_left(memory_cap), shapes_of);
  check_transport(request.ranks, world, found->catalog);
  auto files = std::make_shared<DataFiles>(world.store, found->catalog, request.source.links(), open_file_shares().inputs);
  return {.request = std::move(request), .memory_cap = memory_cap, .found = std::move(found), .files = std::move(files)};
}

// --- selected

Selected select(const Opened& opened, const SelectOptions& options, const MapUse& use, World& world) {
  const auto& [request, assets, has_run, is_filled, lacking] = use;
  const Catalog& catalog = opened.catalog();
  const std::optional<DType> dtype = options.dtypes.dtype;
  const bool may_fit = !request.is_given() && !request.is_declined && has_config(assets, world.store) && options.add_root.empty();
  Selected out;
  if (request.is_given() || may_fit) {
    out.selection = select_keys(catalog, maps::before_map(options));
    const MapQuestion question{.catalog = catalog,
                               .selection = out.selection,
                               .assets = assets,
                               .dtype = dtype,
                               .has_run = has_run && !options.model_only && options.root.empty(),
                               .memory_bytes = memory_left(opened.memory_cap),
                               .is_filled = is_filled};
    AskedMap asked;
    try {
      asked = may_fit ? ask_fitting_map(request, world, question) : ask_map(request, world, question);
    } catch (const Error&) {
      check_kept(*opened.found, out.selection);  // a missing file is why a map lacks its tensors
      throw;
    }
    out.map = std::move(asked.answer);
    out.keeps = std::move(asked.keeps);
    // Under another root the names are again those of the whole.
    if (!asked.published.is_text_part || options.add_root.empty()) out.published = std::move(asked.published);
    const auto is_missing = [](const Problem& p) { return p.id == ProblemId::map_tensor_missing; };
    if (lacking && out.map && !out.map->made.problems.empty() && std::ranges::all_of(out.map->made.problems, is_missing)) {
      std::ranges::move(out.map->made.problems, std::back_inserter(*lacking));
      out.map.reset();
    }
    if (out.map) check_holds(out.map->made, world);
  } else if (dtype) {
    out.keeps = kept_by_family(request.config, {assets, catalog.folder}, *dtype, world.store);
  }
  if (!out.map) out.selection = select_keys(catalog, with_kept(options, out.keeps));  // the names are the published ones
  return out;
}

void check_kept(const OpenedCatalog& opened, const Selection& selection) {
  const Catalog& catalog = opened.catalog;
  std::set<std::string_view> kept;
  for (const Entry& e : selection.entries) kept.insert(catalog.key(e.ref));
  kept.insert(selection.lacking.begin(), selection.lacking.end());
  // A name of another kind in the catalog is no key that can be left out.
  const auto is_key = [&](std::string_view text) {
    const std::optional<StringId> id = catalog.strings.find(text);
    return catalog.has_key(text) || (id && std::ranges::find(catalog.lacking, *id) != catalog.lacking.end());
  };
  check_opened(opened, [&](std::string_view key) { return is_key(key) && !kept.contains(key); });
}

void check_whole(const Catalog& catalog, const Selection& selection) {
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) check_item(catalog, catalog.item_of(e.blob()), catalog.key(e.ref), "");
    else check_whole(catalog, catalog.tensors[e.tensor()]);
  }
}

Parts check_selected(const OpenedCatalog& opened, const Selection& selection, const OutputForm& form) {
  const Catalog& catalog = opened.catalog;
  Parts parts;
  check_kept(opened, selection);
  if (!form.any_tensor) refuse_not_strided(catalog, selection);
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) {
      if (!form.blobs) continue;
      check_item(catalog, catalog.item_of(e.blob()), catalog.key(e.ref), "");
      check_text(catalog, selection, e);
      parts.blobs.push_back(e.blob());
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    if (!form.any_tensor || !catalog.traits().in_torch_files || t.strided) check_whole(catalog, t);
    if (form.blobs) check_text(catalog, selection, e);
    parts.tensors.push_back(e.tensor());
  }
  return parts;
}

std::vector<std::string> keys_of(const Problem& p) {
  return !p.keys.empty() || p.place.tensor.empty() ? p.keys : std::vector{p.place.tensor};
}

std::optional<Selection> select_for_findings(const Catalog& catalog, const SelectOptions& select) {
  if (select.rules.empty() && !select.model_only && select.root.empty() && !select.tensors_only) return std::nullopt;
  return select_keys(catalog, select);
}

uint64_t drop_left_out(std::vector<Problem>& findings, const Catalog& catalog, const Selection& selection) {
  std::set<std::string_view> kept;
  for (const Entry& e : selection.entries) kept.insert(catalog.key(e.ref));
  kept.insert(selection.lacking.begin(), selection.lacking.end());
  const bool has_bytes = std::ranges::all_of(selection.entries, [&](const Entry& e) { return has_its_bytes(catalog, e.ref); });
  return std::erase_if(findings, [&](const Problem& p) {
    const std::vector<std::string> keys = keys_of(p);
    if (has_bytes && keys.empty() && (p.id == ProblemId::file_missing || p.id == ProblemId::item_past_end)) return true;  // others' bytes
    return !keys.empty() && std::ranges::none_of(keys, [&](const std::string& key) { return kept.contains(key); });
  });
}

// --- resolved

Resolved resolve(const Opened& opened, const ResolveRequest& wanted, World& world) {
  const SourceRequest& source = opened.request.source;
  const std::vector<bool> files = wanted.part ? files_of(opened.catalog(), wanted.part->tensor, wanted.part->axes) : std::vector<bool>();
  const uint64_t request_bytes = world.store.read_capabilities(source.path).request_bytes;
  const unsigned workers = reading_workers(opened.request.threads, world, source.path);
  // A worker has two reads at once, and what is made of them.
  const uint64_t whole = std::min(request_bytes, memory_left(opened.memory_cap) / (4 * workers));
  const uint64_t small = wanted.summed != nullptr ? std::max(whole, SliceSource::kSmallItem) : SliceSource::kSmallItem;
  const ResolveOptions options{.workers = workers,
                               .faults = wanted.faults,
                               .blobs = wanted.use,
                               .limits = source.limits(),
                               .memory_bytes = memory_left(opened.memory_cap),
                               .memory_cap = opened.memory_cap,
                               .small_item = wanted.data_follows ? 4 * kKiB : small,
                               .only_files = wanted.part ? &files : wanted.only_files,
                               .summed = wanted.summed,
                               .predicts = wanted.predicts && request_bytes > 0};
  const auto& [tensors, blobs] = wanted.parts;
  if (world.ranks) return world.ranks->group.resolve(*opened.files, tensors, blobs, options, world.stop);
  return resolve(*opened.files, tensors, blobs, options, world.stop);
}

std::vector<Problem> compare_copies(const Opened& opened, const Resolved& resolved, Faults faults, World& world) {
  if (opened.request.source.prefer_rank) return {};
  const Source source = opened.with(resolved);
  const ContentOf contents = world.ranks ? world.ranks->group.gather_contents(source, opened.limits())
                                         : contents_of(*opened.files, opened.catalog(), opened.limits());
  if (!world.leads()) return {};
  if (faults == Faults::kCollect) return find_differing_duplicates(source, contents);
  prove_duplicates(source, contents);
  return {};
}

// --- ready

Ready make(Opened opened, Selected& selected, Resolved resolved, const SelectOptions& options) {
  Ready ready{.opened = std::move(opened), .resolved = std::move(resolved), .derived = {}, .filled = {}};
  if (!selected.map) return ready;
  Derived derived = derive(ready.source(), selected.map->made.targets);
  if (selected.map->run) add_objects(ready.source(), *selected.map->run, derived);
  ready.derived = std::make_unique<const Derived>(std::move(derived));
  selected.selection =
      maps::select_mapped(ready.catalog(), with_kept(options, selected.keeps), std::move(selected.selection), selected.map->objects());
  return ready;
}

Ready make_part(Opened opened, Selected& selected, Resolved resolved, const TensorSlice& part) {
  Ready ready{.opened = std::move(opened), .resolved = std::move(resolved), .derived = {}, .filled = {}};
  const CastSummary casts = selected.selection.casts;
  const IndexMap map = map_of(ready.catalog(), part.tensor, part.axes);
  DerivedPart made = derive_part(ready.source(), part.tensor, map, selected.selection.entries.front().dtype);
  selected.selection = std::move(made.selection);
  selected.selection.casts = casts;
  ready.derived = std::move(made.derived);
  return ready;
}

DerivedPart derive_part(const SourceFacts& source, TensorId tensor, const IndexMap& map, DType dtype) {
  refuse_opaque(source, tensor);
  DerivedPart part{.derived = std::make_unique<const Derived>(derive(source, {&map, 1})), .selection = {}};
  part.selection = select_keys(part.derived->catalog, {});
  part.selection.entries.front().dtype = dtype;
  return part;
}

void compare_ties(const Ready& ready, const Selected& selected, unsigned workers, World& world) {
  if (!selected.map) return;
  compare_ties(selected.map->made.ties, ready.opened.with(ready.resolved), workers, world);
  for (const std::string& text : selected.map->tied) world.events.info(text);
}

// --- planned

unsigned fit(const Opened& opened, const Plan& plan, uint64_t min_bytes, const World& world, uint64_t& planned_memory) {
  const std::string& path = opened.request.source.path;
  const uint64_t min = std::max(min_bytes, world.ranks ? Exchange::worker_bytes(plan) : 0);
  const unsigned wanted = reading_workers(opened.request.threads, world, path);
  return fit_workers(plan, path, opened.memory_cap, {.wanted = wanted, .min_bytes = min}, planned_memory);
}

void execute_or_throw(const Plan& plan, const Source& source, Sink& sink, const ExecuteOptions& options, World& world) {
  Progress progress;
  refuse_damage(execute(plan, source, sink, options, {progress, world.stop}).damage, world);
}

void refuse_damage(const std::vector<Problem>& damage, World& world) {
  if (damage.empty()) return;
  for (size_t i = 1; i < damage.size(); ++i) world.events.warn(world.events.line_of(damage[i]));
  throw Error(damage.front());
}

}  // namespace dcp
