#include "app/verify.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "app/digests.h"
#include "app/model_config.h"
#include "app/output.h"
#include "app/resources.h"
#include "base/stores.h"
#include "base/text.h"
#include "catalog/structure.h"
#include "files/output_free.h"
#include "items/idle_parameters.h"
#include "items/unsafe.h"
#include "maps/apply_map.h"
#include "select/training_state.h"

namespace dcp {
namespace {

void add(std::vector<Problem>& findings, std::vector<Problem> more) {
  findings.insert(findings.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// What cannot be read becomes a finding.
void collect(std::vector<Problem>& findings, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    if (!can_be_collected(e.problem().id)) throw;
    findings.push_back(e.problem());
    findings.back().severity = Severity::kDamage;
  }
}

// Findings that need no item to be read.
std::vector<Problem> look_around(const OpenedCatalog& opened, Store& store) {
  const Catalog& catalog = opened.catalog;
  std::vector<Problem> findings = structure_findings(opened);
  add(findings, find_overlapping_items(catalog));
  add(findings, inspect_folder(store, catalog));
  add(findings, find_unsafe_pickles(catalog));
  const bool is_whole = std::ranges::find(findings, Severity::kDamage, &Problem::severity) == findings.end() &&
                        std::ranges::none_of(findings, tells_unseen_shards);
  add(findings, differences_from_config(catalog, is_whole, store));
  return findings;
}

// Of what is not whole a map makes nothing: what is here is verified without it.
MapRequest map_for(const VerifyRequest& request, World& world, const std::vector<Problem>& findings) {
  if (!request.map.is_given() || std::ranges::find(findings, Severity::kDamage, &Problem::severity) == findings.end()) return request.map;
  world.events.info("the map is not applied, because the checkpoint is damaged");
  return {};
}

// A tensor that the map lacks is damage, too: without it no program makes the model. What is here is verified without the map.
Selected select_with(MapRequest& map, const Opened& opened, const VerifyRequest& request, World& world, std::vector<Problem>& findings) {
  if (!map.is_given() && !request.digests()) return {};
  std::vector<Problem> lacking;
  Selected selected = select(opened, request.select, {.request = map, .lacking = request.digests() ? nullptr : &lacking}, world);
  if (lacking.empty()) return selected;
  for (Problem& p : lacking) p.severity = Severity::kDamage;
  add(findings, std::move(lacking));
  map = {};
  return {};
}

uint64_t file_bytes(const Catalog& catalog) {
  uint64_t bytes = 0;
  for (const DataFile& f : catalog.files) bytes += f.bytes.value_or(0);
  return bytes;
}

// All items; with a map, those that it reads: a view of what cannot be read is none.
ResolveRequest wanted_of(const Catalog& catalog, const std::optional<MapAnswer>& map) {
  if (map) return {.parts = {.tensors = map->sources(), .blobs = {}}};
  ResolveRequest wanted{.parts = {std::vector<TensorId>(catalog.tensors.size()), std::vector<BlobId>(catalog.blobs.size())},
                        .faults = Faults::kCollect};
  std::iota(wanted.parts.tensors.begin(), wanted.parts.tensors.end(), 0u);
  std::iota(wanted.parts.blobs.begin(), wanted.parts.blobs.end(), 0u);
  return wanted;
}

void sort_findings(std::vector<Problem>& findings) {
  part_errors(findings);
  const auto rest = [](const Problem& p) {
    return std::tuple(p.place.offset.value_or(0), std::string_view(p.place.tensor), id_name(p.id), to_line(p));
  };
  std::ranges::sort(findings, [&](const Problem& a, const Problem& b) {
    if (a.severity != b.severity) return a.severity > b.severity;
    return a.place.path != b.place.path ? natural_less(a.place.path, b.place.path) : rest(a) < rest(b);
  });
  const auto same = [](const Problem& a, const Problem& b) { return a.id == b.id && to_line(a) == to_line(b); };
  findings.erase(std::unique(findings.begin(), findings.end(), same), findings.end());
}

// Of these keys. Nothing where some damage is in neither a key nor the length of a file.
std::optional<Harm> harm_of(const std::vector<Problem>& findings, const Catalog& catalog, const std::vector<KeyRef>& keys_asked) {
  std::set<std::string, std::less<>> names;
  bool is_damaged = false;
  for (const Problem& p : findings) {
    if (p.severity < Severity::kDamage) continue;
    is_damaged = true;
    if (maps::is_of_sizes(p) || p.id == ProblemId::map_config || p.id == ProblemId::map_tensor_missing || p.id == ProblemId::model_differs)
      return std::nullopt;  // the others are no model either
    const std::vector<std::string> keys = keys_of(p);
    if (keys.empty() && p.id != ProblemId::file_missing && p.id != ProblemId::item_past_end) return std::nullopt;
    names.insert(keys.begin(), keys.end());
  }
  if (!is_damaged) return std::nullopt;
  const TrainingState state = find_training_state(catalog);
  Harm harm{.has_one_model = state.models.size() == 1};
  for (const KeyRef key : keys_asked) {
    harm.model_keys += state.is_model(key);
    const bool is_named = names.contains(catalog.key(key));
    if (!is_named && has_its_bytes(catalog, key)) continue;
    if (!is_named) harm.lost.emplace_back(catalog.key(key));
    ++(key.is_blob() ? harm.objects : harm.tensors);
    if (state.is_model(key)) harm.of_model.emplace_back(catalog.key(key));
  }
  return harm.tensors + harm.objects > 0 ? std::optional(std::move(harm)) : std::nullopt;
}

void note_catalog(const Catalog& catalog, VerifyResult& result) {
  result.kind = catalog.kind;
  result.checkpoint = catalog.path;
  result.tensors = catalog.tensors.size();
  result.objects = catalog.blobs.size();
  result.chunks = catalog.chunk_total;
  result.files = catalog.files.size();
  result.file_bytes = file_bytes(catalog);
}

// What was read and found; one finding says how many records have no CRC.
void note_work(const SourceFacts& source, const VerifyPlan& plan, ExecuteReport executed, VerifyResult& result) {
  for (Problem& p : executed.damage) {
    p.severity = Severity::kDamage;
    result.findings.push_back(std::move(p));
  }
  result.records = source.resolved.records_checked + executed.records_checked;
  result.records_without_crc = source.resolved.records_without_crc + executed.records_without_crc + plan.plan.unchecked_records;
  result.bytes = source.resolved.bytes_read + executed.bytes_read;
  result.data_records = plan.data_records;
  result.data_bytes = plan.data_bytes;
  result.left_out_records = plan.left_out_records;
  result.left_out_bytes = plan.left_out_bytes;
  if (result.records_without_crc == 0) return;
  Problem p = make_problem(ProblemId::crc_absent, {.path = source.catalog.path}, counted(result.records_without_crc, "record"));
  // torch writes archives with CRCs unless that is turned off; safetensors files cannot hold one.
  const bool never_has_one = !source.catalog.traits().in_torch_files && std::ranges::all_of(source.catalog.files, &DataFile::raw);
  p.severity = never_has_one ? Severity::kNote : Severity::kWarning;
  result.findings.push_back(std::move(p));
}

// What they come to.
void note_findings(const VerifyRequest& request, const Catalog& catalog, VerifyResult& result) {
  const auto selection = request.digests() ? std::nullopt : select_for_findings(catalog, request.select);
  std::vector<KeyRef> keys = catalog.order;
  if (selection) {
    keys.clear();
    for (const Entry& e : selection->entries) keys.push_back(e.ref);
    const auto objects = static_cast<uint64_t>(std::ranges::count_if(keys, &KeyRef::is_blob));
    if (keys.size() < catalog.order.size()) result.selected = {.tensors = keys.size() - objects, .objects = objects};
    result.left_out_findings = drop_left_out(result.findings, catalog, *selection);
  }
  result.harm = harm_of(result.findings, catalog, keys);
  result.unsafe = fold_unsafe(result.findings);
  sort_findings(result.findings);
}

// What is expected; what will be written has a place.
std::optional<Manifest> prepare_manifests(const VerifyRequest& request, World& world) {
  std::optional<Manifest> expected;
  if (!request.against.empty()) expected = read_manifest_file(request.against, world.store);
  if (request.manifest.empty() || request.manifest == "-") return expected;
  check_on_disk(world.store, request.manifest);
  check_output_free(world.io, request.manifest, false, request.replace);
  return expected;
}

void note_comparison(ManifestComparison compared, VerifyResult& result) {
  add(result.findings, std::move(compared.findings));
  result.compared_keys = compared.keys;
  result.compared_files = compared.files;
}

void keep_manifest(const VerifyRequest& request, World& world, const Manifest& found, VerifyResult& result) {
  if (request.manifest.empty()) return;
  if (result.is_damaged()) return world.events.warn("no manifest is written for a damaged checkpoint");
  const std::string text = write_manifest(found, {.path = request.read.source.path});
  if (request.manifest == "-") result.manifest = text;
  else save_small_file(world, request.manifest, text, {.replace = request.replace});
  result.wrote_manifest = true;
}

}  // namespace

uint64_t VerifyResult::count(Severity severity) const {
  return static_cast<uint64_t>(std::ranges::count(findings, severity, &Problem::severity));
}

void verify(const VerifyRequest& request, World& world, VerifyResult& result, const VerifySteps& steps) {
  const uint64_t begin = world.io.now_ns();
  const uint64_t memory_cap = begin_reading(request.read, world);
  std::optional<Manifest> expected = world.leads() ? prepare_manifests(request, world) : std::nullopt;
  const Opened opened = open(request.read, memory_cap, world);
  const Catalog& catalog = opened.catalog();
  if (!request.manifest.empty() && request.manifest != "-") refuse_source(request.manifest, catalog);
  note_catalog(catalog, result);
  result.findings = look_around(*opened.found, world.store);
  MapRequest map = map_for(request, world, result.findings);
  Selected selected = select_with(map, opened, request, world, result.findings);
  const bool selects = request.digests() || map.is_given();
  steps.selected(selected.selection);
  Progress progress;
  ResolveRequest wanted = wanted_of(catalog, selected.map);
  std::unique_ptr<Display> display;
  if (!selects && request.data && request.sample_percent >= 100) {  // every record is read once, and nothing else is asked of it
    wanted.summed = &progress.bytes_read;
    display = world.events.show(progress, progress.bytes_read, file_bytes(catalog));
  }
  Resolved resolved = resolve(opened, wanted, world);
  add(result.findings, std::exchange(resolved.findings, {}));
  add(result.findings, compare_copies(opened, resolved, Faults::kCollect, world));
  if (selected.map) result.tensors_of_map = selected.map->sources().size();
  const Ready ready = make(opened, selected, std::move(resolved), request.select);  // what a map makes, and the records that it reads
  if (selected.map) steps.mapped(*selected.map);

  const Source source = ready.source();
  const Selection* const digested = selects ? &selected.selection : nullptr;
  const UnitOptions units = units_of(world, request.read.source.path, request.read.max_memory);
  VerifyPlan plan =
      plan_verify(source, {.data = request.data, .sample_percent = request.sample_percent, .digests = digested, .units = units});
  add(result.findings, std::move(plan.findings));
  const unsigned workers = fit(opened, plan.plan, kMiB, world, result.planned_memory);
  // The sum of a whole file cannot be joined, and files are dealt by units.
  const bool sum = request.digests() && request.file_digests && !world.ranks;
  if (request.digests() && request.file_digests && world.ranks)
    world.events.info("with several ranks, digests cover tensors and objects, not whole files");
  DigestSink sink(plan.plan);
  if (!display) display = world.events.show(progress, progress.bytes_read, plan.plan.bytes_to_read + (sum ? file_bytes(catalog) : 0));
  compare_ties(ready, selected, workers, world);
  ExecuteReport executed = run_digest_units({plan.plan, source, workers}, sink, progress, world);
  std::vector<FileSum> sums;
  if (sum) collect(result.findings, [&] { sums = sum_files(source.files, request.read.source.links(), workers, {progress, world.stop}); });
  display.reset();
  if (!world.leads()) return;
  add(result.findings, find_idle_parameters(source.files, catalog, opened.limits()));
  note_work(source, plan, std::move(executed), result);
  if (request.digests()) {
    const Manifest found = manifest_of(source.catalog, plan, sink, sums);
    if (expected) note_comparison(compare_with(std::move(*expected), found, plan, source.catalog, request.subset), result);
    keep_manifest(request, world, found, result);
  }
  note_findings(request, catalog, result);
  result.nanoseconds = world.io.now_ns() - begin;
}

}  // namespace dcp
