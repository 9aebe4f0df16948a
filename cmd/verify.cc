// dcpctl verify: is the checkpoint whole? Reads all of it, or with --quick all but the data.
#include <charconv>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>

#include "catalog/duplicates.h"
#include "catalog/oddities.h"
#include "catalog/unsafe.h"
#include "commands.h"
#include "digest_units.h"
#include "exec/file_set.h"
#include "exec/file_sums.h"
#include "format/manifest.h"
#include "key_flags.h"
#include "mapped.h"
#include "maps/derive.h"
#include "maps/selected.h"
#include "memory.h"
#include "open_files.h"
#include "plan/verify_plan.h"
#include "progress.h"
#include "ranks/exchange.h"
#include "source.h"
#include "together.h"
#include "verify_report.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Says whether a checkpoint is whole, and what is wrong where: each tensor is covered by its chunks, each chunk has its item inside its
file and for itself, what the item says of its tensor is what the metadata says, and every record has the CRC that its writer stored.
torch compares no CRC: it loads damaged bytes without a word.

  damage     something cannot be loaded as it was saved; exit code 1
  warning    odd, but nothing is lost by it, or cannot be checked (a file that belongs to no item, records without a CRC)
  note       may mean nothing

What loading a pickle would run that torch.load(weights_only=True) refuses is a warning that names it, and damage where a tensor should be:
of every object, of the metadata (torch loads both with pickle.load), of a torch.save file. --fail-on unsafe makes the exit code 1.

A manifest holds a digest of every tensor (CRC-64/XZ of its elements with dtype and shape: the same for every sharding and file format),
of every object (its pickle and storages, comparable between DCP folders) and of every file. With --against a checkpoint, or what was
made from one, is proved to hold the same. Options of which keys and names say what the manifest holds, as they do for consolidate.

  dcpctl verify step-1000
  dcpctl verify step-1000 --quick --fail-on unsafe
  dcpctl verify step-1000 --manifest model.json --model-only
  dcpctl verify model.safetensors --against model.json)";

struct Options {
  SourceFlags source;
  KeyFlags keys;
  MapFlags map;
  FailOn fail_on;
  bool quick = false, strict = false, subset = false, no_files = false, force = false;
  std::string sample, manifest, against, max_memory;
  unsigned threads = 0;
  RanksFlags ranks;

  bool digests() const { return !manifest.empty() || !against.empty(); }
};

double percent_of(const std::string& text) {
  double percent = 0;
  const char* last = text.data() + text.size() - (text.ends_with('%') ? 1 : 0);
  const auto [end, error] = std::from_chars(text.data(), last, percent);
  if (error != std::errc{} || end != last || !(percent > 0 && percent <= 100))
    fail(ProblemId::usage, {}, "--sample '" + text + "'", "a percentage above 0, such as 5%");
  return percent;
}

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

// What is to be seen without reading an item.
std::vector<Problem> look_around(Catalog& catalog, const Context& context) {
  find_structure_faults(catalog);
  std::vector<Problem> findings = std::move(catalog.findings);
  add(findings, find_overlapping_items(catalog));
  add(findings, find_folder_oddities(context.io, catalog));
  add(findings, find_unsafe_pickles(catalog));
  return findings;
}

uint64_t file_bytes(const Catalog& catalog) {
  uint64_t bytes = 0;
  for (const DataFile& f : catalog.files) bytes += f.bytes.value_or(0);
  return bytes;
}

Resolved resolve_all(DataFiles& files, const Catalog& catalog, const ResolveOptions& options, Context& context) {
  std::vector<TensorId> tensors(catalog.tensors.size());
  std::vector<BlobId> blobs(catalog.blobs.size());
  std::iota(tensors.begin(), tensors.end(), 0u);
  std::iota(blobs.begin(), blobs.end(), 0u);
  return resolve_together(context, files, catalog, tensors, blobs, options);
}

Resolved resolve_for(const MapAnswer& map, DataFiles& files, const Catalog& catalog, ResolveOptions options, Context& context) {
  options.faults = Faults::kThrow;  // a view of what cannot be read is none
  return resolve_together(context, files, catalog, map.sources(), {}, options);
}

Manifest manifest_of(const Catalog& catalog, const VerifyPlan& plan, const DigestSink& sink, const std::vector<FileSum>& files) {
  Manifest manifest;
  for (uint32_t f = 0; f < plan.digests.size(); ++f) {
    const std::optional<uint64_t> digest = sink.digest(f);
    if (!digest) continue;  // a unit has failed, which is a finding
    const Entry& e = plan.digests[f];
    const bool elements = !e.is_blob() && !plan.is_object[f];
    if (!elements) {
      manifest.objects[std::string(e.key)] = {.bytes = plan.plan.files[f].bytes, .crc64 = *digest};
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    const Dims dims = catalog.dims(t);
    manifest.tensors[std::string(e.key)] = {
        .dtype = std::string(facts_of(t.dtype).name), .shape = {dims.begin(), dims.end()}, .crc64 = *digest};
  }
  for (const FileSum& s : files) manifest.files[s.name] = {.bytes = s.bytes, .xxh3_128 = s.xxh3_128};
  return manifest;
}

Manifest read_expected(const std::string& path, Io& io) {
  const Limits limits;
  const std::vector<std::byte> bytes = read_file(io, path, limits.json_bytes);
  return read_manifest(as_text(bytes), {.path = path}, limits);
}

// `found` has no entry for a key whose content could not be had; that is a finding already.
void compare_with(Manifest expected, const Manifest& found, const VerifyPlan& plan, const Catalog& catalog, const Options& o,
                  VerifyReport& report) {
  const auto drop = [&](const Entry& e) {
    expected.tensors.erase(std::string(e.key));
    expected.objects.erase(std::string(e.key));
  };
  for (const Entry& e : plan.not_digested) drop(e);
  for (const Entry& e : plan.digests)
    if (!found.tensors.contains(std::string(e.key)) && !found.objects.contains(std::string(e.key))) drop(e);
  const bool holds_objects = catalog.kind == CheckpointKind::kDcp || catalog.kind == CheckpointKind::kDcpRankLocal;
  ManifestComparison compared =
      compare_manifests(expected, found, {.path = catalog.path}, o.subset ? Subset::kYes : Subset::kNo,
                        holds_objects ? Objects::kHeld : Objects::kNotHeld, catalog.single_file ? FilesAre::kItself : FilesAre::kBelow);
  add(report.findings, std::move(compared.findings));
  report.compared_keys = compared.keys;
  report.compared_files = compared.files;
}

void save_manifest(const Options& o, const Manifest& manifest, Context& context) {
  const std::string text = write_manifest(manifest, {.path = o.source.path});
  FileSet file(context.io, o.manifest, {{"", text.size()}}, {.folder = false, .replace = o.force ? Replace::kYes : Replace::kNo});
  for (const std::string& n : file.found()) context.note(n);
  file.write(0, 0, as_bytes(text));
  file.finish();
  file.commit();
}

int run(const Options& o, Context& context, VerifyReport& report) {
  const uint64_t begin = context.io.now_ns();
  join_ranks(o.ranks, context);
  Together* const ranks = context.together.get();
  const bool leads = !ranks || ranks->crew.leads();
  report.source = o.source.path;
  report.fail_on = o.fail_on;
  if (o.strict) report.fail_on.classes.push_back("warnings");
  report.against = o.against;
  VerifyOptions what{.data = !o.quick};
  if (!o.sample.empty()) what.sample_percent = percent_of(o.sample);
  const uint64_t cap = reading_cap(o.max_memory, context);
  hold_heap(cap, context);
  std::optional<Manifest> expected;
  if (leads && !o.against.empty()) expected = read_expected(o.against, context.io);
  if (leads && !o.manifest.empty()) check_output_free(context.io, o.manifest, false, o.force ? Replace::kYes : Replace::kNo);

  Catalog source = open_together(o.source, context, memory_left(cap));
  check_transport(o.ranks, context, source);
  report.describe(source);
  report.findings = look_around(source, context);
  Selection selection;
  const SelectOptions select = o.keys.select_options(context);
  if (o.digests()) what.digests = &(selection = select_keys(source, o.map.map.empty() ? select : maps::before_map(select)));
  const std::optional<MapAnswer> map = ask_map(o.map, context, {.catalog = source, .selection = selection, .assets = {}});
  if (map) check_holds(*map, context);
  else if (!o.map.map.empty()) selection = select_keys(source, select);

  DataFiles files(context.io, source, o.source.links(), open_file_shares().inputs);
  const ResolveOptions reading{.workers = wanted_workers(o.threads, ranks != nullptr),
                               .faults = Faults::kCollect,
                               .limits = o.source.limits(),
                               .memory_bytes = memory_left(cap),
                               .memory_cap = cap};
  Resolved found = map ? resolve_for(*map, files, source, reading, context) : resolve_all(files, source, reading, context);
  add(report.findings, std::move(found.findings));
  if (!o.source.prefer_rank) {
    const ContentOf contents = contents_together(context, files, source, found, reading.limits);
    if (leads) add(report.findings, find_differing_duplicates(source, found, contents));
  }
  // With a map, what it makes is what is verified, and the records that it reads are.
  std::optional<Derived> derived;
  if (map) {
    derived = derive(source, found, map->made.targets);
    selection = maps::select_mapped(derived->catalog, select, std::move(selection));
    describe(*map, context);
  }
  const Catalog& catalog = derived ? derived->catalog : source;
  const Resolved& resolved = derived ? derived->resolved : found;

  VerifyPlan plan = plan_verify(catalog, resolved, what);
  report.left_out_by = o.quick ? "--quick" : "--sample " + o.sample;
  add(report.findings, std::move(plan.findings));
  const unsigned workers =
      fit_workers(plan.plan, o.source.path, cap,
                  {.wanted = reading.workers, .least_bytes = ranks ? Exchange::worker_bytes(plan.plan) : kMiB}, report.planned_memory);
  const bool sum = o.digests() && !o.no_files && !ranks;  // the sum of a whole file cannot be joined, and files are dealt by units
  if (o.digests() && !o.no_files && ranks) context.note("several ranks: digests are of tensors and objects, not of whole files");
  DigestSink sink(plan.plan);
  Progress progress;
  ExecuteReport executed;
  std::vector<FileSum> sums;
  {
    const ProgressDisplay display(context, progress, progress.bytes_read, plan.plan.bytes_to_read + (sum ? file_bytes(catalog) : 0));
    if (map) compare_ties(*map, source, found, files, workers, context);
    executed = run_digest_units(plan.plan, catalog, resolved, files, sink, workers, progress, context);
    if (sum) collect(report.findings, [&] { sums = sum_files(files, catalog, o.source.links(), workers, progress, context.stop); });
  }
  if (!leads) return report.follow(end_ranks(context, 0));
  report.add(catalog, resolved, plan, std::move(executed));
  if (o.digests()) {
    const Manifest summed = manifest_of(catalog, plan, sink, sums);
    if (expected) compare_with(std::move(*expected), summed, plan, catalog, o, report);
    if (!o.manifest.empty() && !report.is_damaged()) {
      save_manifest(o, summed, context);
      report.manifest = o.manifest;
    } else if (!o.manifest.empty()) {
      context.complain("no manifest is written of a checkpoint that is damaged");
    }
  }
  report.seconds_ns = context.io.now_ns() - begin;
  return end_ranks(context, report.done(context));
}

// Options that say which keys a manifest holds mean nothing without one.
void check_flags(const Command& command, const Options& o) {
  if (o.digests()) return;
  for (const Option* given : command.given)
    if (given->group == "Which keys" || given->group == "Names" || given->name() == "--map")
      fail(ProblemId::usage, {}, given->name() + " without a manifest", "--manifest or --against beside it");
}

void add_flags(Command& c, Context& context, Options& o) {
  const std::string what = "What is checked", manifest = "Manifest";
  add_source(c, context, o.source);
  c.flag("--quick", o.quick, "Leave the data out: metadata, item headers and small records only").in(what);
  c.option("--sample", o.sample, "PERCENT", "Of the data check that much, always the same").excludes("--quick").in(what);
  c.flag("--strict", o.strict, "Exit with 1 for warnings too: --fail-on warnings").in(what);
  add_fail_on(c, o.fail_on, what);
  add_threads(c, o.threads, "Reading");
  add_max_memory(c, o.max_memory, "Reading");
  c.option("--manifest", o.manifest, "FILE", "Write digests of all tensors, objects and files to FILE")
      .writes()
      .excludes("--quick")
      .excludes("--sample")
      .excludes("--against")
      .in(manifest);
  c.option("--against", o.against, "FILE", "Compare with the manifest in FILE")
      .reads()
      .excludes("--quick")
      .excludes("--sample")
      .in(manifest);
  c.flag("--subset", o.subset, "With --against: what is not here is not missed").needs("--against").in(manifest);
  c.flag("--no-files", o.no_files, "Leave whole files out, which take a second reading").in(manifest);
  c.flag("--force", o.force, "Replace the file of --manifest").needs("--manifest").in(manifest);
  add_key_flags(c, o.keys);
  add_map(c, o.map);
  add_ranks(c, o.ranks, Gathers::kNo);
  add_common(c, context, true);
}

}  // namespace

void add_verify(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  c.details = kText;
  add_flags(c, context, *options);
  c.run = [options, &c, &context] {
    VerifyReport report;
    return report.around(context, [&] {
      check_flags(c, *options);
      return run(*options, context, report);
    });
  };
}

}  // namespace dcp::cmd
