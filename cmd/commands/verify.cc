// dcpctl verify: is the checkpoint whole? Reads all of it, or with --quick all but the data.
#include "app/verify.h"

#include <map>
#include <string>

#include "app/ranked_run.h"
#include "app/run_survey.h"
#include "app/stats.h"
#include "line/commands.h"
#include "line/option_values.h"
#include "line/sandbox.h"
#include "report/findings.h"
#include "report/page/page.h"
#include "report/selection_report.h"
#include "report/stats_report.h"
#include "report/verify_report.h"
#include "request/key_flags.h"
#include "request/map_flags.h"
#include "request/ranks_flags.h"
#include "request/source.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Checks whether a checkpoint is whole, and reports what is wrong and where: each tensor is covered by its chunks, each chunk has an
item of its own that lies inside its file, items agree with the metadata about their tensors, and every record matches the CRC that its
writer stored. torch checks no CRC: it loads damaged bytes silently.

  damage     something cannot be loaded as it was saved; exit code 1
  warning    odd but harmless, or impossible to check (a file that belongs to no item, records without a CRC)
  note       probably harmless

If loading a pickle would run code that torch.load(weights_only=True) refuses, a warning names it; where a tensor should be, that is damage.
This holds for every object, the metadata (torch loads both with pickle.load) and torch.save files. --fail-on unsafe makes the exit code 1.

A manifest holds a digest of every tensor (CRC-64/XZ of its elements with dtype and shape: the same for every sharding and file format), of
every object (its pickle and storages, comparable between DCP folders) and of every file. --against proves that a checkpoint, or an output
made from one, holds the same. Options that select keys and names decide what the manifest holds, as they do for consolidate. Without one,
findings that are only about keys which are left out do not count.

Of a run, all steps are checked as with --quick, in a line each and a tally; --all-data reads their data, too. A save that did not end is
named, and is a warning. --stats also counts NaN and inf in the tensors, which takes a second read; --fail-on nan makes that exit code 1.

  dcpctl verify step-1000
  dcpctl verify run
  dcpctl verify run --all-data
  dcpctl verify step-1000 --fail-on nan
  dcpctl verify step-1000 --quick --fail-on unsafe
  dcpctl verify step-1000 --exclude 'optimizer.*'
  dcpctl verify step-1000 --manifest model.json --model-only
  dcpctl verify model.safetensors --against model.json)";

struct VerifyOptions {
  SourceFlags source;
  KeyFlags keys;
  MapFlags map;
  FailOn fail_on;
  bool quick = false, all_data = false, strict = false, subset = false, no_files = false, force = false;
  std::string sample, stats, manifest, against, max_memory, html;
  unsigned threads = 0;
  RanksFlags ranks;
  std::vector<size_t> parts_of;               // by checkpoint, the number of its step
  bool of_run = false;                        // the source is one step of the run that was given
  std::map<std::string, Problem> unfinished;  // by path, of the run's saves that did not end, why

  bool wants_stats() const { return !stats.empty() || fail_on.nan(); }
  // Of all the steps of a run data is read only where that is said.
  bool reads_data() const { return !quick && (!of_run || all_data || !sample.empty() || wants_stats()); }
};

VerifyRequest verify_request(const VerifyOptions& o, const Context& context) {
  VerifyRequest request{.read = {.source = o.source.request(),
                                 .ranks = o.ranks.options(context),
                                 .max_memory = reading_cap(o.max_memory),
                                 .threads = o.threads},
                        .data = o.reads_data(),
                        .manifest = o.manifest,
                        .replace = o.force ? Replace::kYes : Replace::kNo,
                        .against = o.against,
                        .subset = o.subset ? Subset::kYes : Subset::kNo,
                        .file_digests = !o.no_files,
                        .map = o.map.request(),
                        .select = o.manifest.empty() && !o.strict ? o.keys.select_options(context) : o.keys.select_to_write(context)};
  if (!o.sample.empty()) request.sample_percent = parse_percent(o.sample, "--sample");
  return request;
}

// The statistics that were asked for, or that --fail-on nan needs.
void take_stats(const VerifyOptions& o, Context& context, VerifyReport& report) {
  if (!o.wants_stats()) return;
  StatsRequest request{.read = {.source = o.source.request(), .max_memory = reading_cap(o.max_memory), .threads = o.threads},
                       .select = o.keys.select_options(context)};
  if (!o.stats.empty()) request.glob = o.stats;
  stats(request, context, report.stats.emplace());
  if (!o.stats.empty() && report.stats->tensors.empty()) throw Error(nothing_to_measure(o.stats, report.stats->checkpoint));
}

// What the page draws: the files and tensors that findings are about.
InspectResult drawn(const VerifyOptions& o, Context& context) {
  InspectResult found;
  SelectOptions select = o.keys.select_options(context);
  select.keep_root = true;
  inspect({.source = o.source.request(), .max_memory = reading_cap(o.max_memory), .select = std::move(select)}, context, found);
  return found;
}

int run(const VerifyOptions& o, Context& context, VerifyReport& report) {
  check_page(context, o.html, o.source.path, o.manifest == "-" ? "" : o.manifest);
  if (const auto unfinished = o.unfinished.find(o.source.path); unfinished != o.unfinished.end()) throw Error(unfinished->second);
  report.fail_on = o.fail_on;
  if (o.strict) report.fail_on.classes.push_back("warnings");
  report.left_out_by = o.sample.empty() ? "--quick" : "--sample " + o.sample;
  const VerifyRequest request = verify_request(o, context);
  verify(request, context, report.result,
         {.selected = [&](const Selection& s) { describe_unmatched(context, unmatched_rules(s)); },
          .mapped = [&](const MapAnswer& map) { describe(map, context); }});
  if (context.leads()) take_stats(o, context, report);
  if (!context.leads()) return report.follow(end_ranks(context, 0));
  const int exit = report.done(context);
  if (!o.html.empty()) save_page(context, o.html, report.html(drawn(o, context)));
  return end_ranks(context, exit);
}

// New names are those of a manifest.
void check_flags(const Command& command, const VerifyOptions& o, const Context& context) {
  if (o.quick && o.wants_stats()) fail(ProblemId::usage, {}, "--fail-on nan with --quick", "the data to be read");
  if (!o.ranks.alone && o.wants_stats() && is_one_of_several())
    fail(ProblemId::usage, {}, "--stats under a launcher of ranks", "--alone beside it");
  const std::optional<FileFacts> other = o.against.empty() ? std::nullopt : context.store.facts(o.against);
  if (other && other->kind == FileKind::kDirectory) {
    throw Error(with_hint(make_problem(ProblemId::manifest_bad, {.path = o.against}, "a folder", "a file that --manifest has written"),
                          "'dcpctl diff A B' compares two checkpoints"));
  }
  if (!o.manifest.empty() || !o.against.empty()) return;
  for (const Option* given : command.given) {
    if (given->group == "Names")
      fail(ProblemId::usage, {}, given->name() + " without a manifest", "--manifest, --against or --stats beside it");
  }
}

// In the place of a run, its steps. False: it is none.
bool take_steps(Option& ckpt, VerifyOptions& o, const Context& context) {
  if (ckpt.count() != 1 || !o.source.step.empty()) return false;
  std::vector<Step> steps;
  try {
    steps = steps_of_run(context.store, o.source.path, o.source.pattern);
  } catch (const Error&) {  // it is said when it is opened
  }
  if (steps.empty()) return false;
  if (!o.manifest.empty() || !o.against.empty())
    fail(ProblemId::usage, {.path = o.source.path}, "a manifest with all steps of a run", "one of them: --step N");
  if (!o.html.empty())
    fail(ProblemId::usage, {.path = o.source.path}, "--html with all steps of a run",
         "one of them: --step N; 'dcpctl list --html' draws all");
  o.of_run = true;
  ckpt.given.clear();
  for (const Step& s : steps) {
    const bool is_unfinished = s.broken && !s.known_damaged;  // this reads it anew
    if (is_unfinished) o.unfinished.emplace(s.path, *s.broken);
    if (s.parts.empty() || is_unfinished) ckpt.given.push_back(s.path);
    else ckpt.given.insert(ckpt.given.end(), s.parts.begin(), s.parts.end());
    o.parts_of.resize(ckpt.given.size(), static_cast<size_t>(&s - steps.data()));
  }
  return true;
}

void add_flags(Command& c, Context& context, VerifyOptions& o) {
  const std::string what = "What is checked", manifest = "Manifest";
  add_source(c, context, o.source);
  c.flag("--quick", o.quick, "Skip tensor data: check metadata, item headers and small records only").in(what);
  c.option("--sample", o.sample, "PERCENT", "Check only this much of the data, always the same part").excludes("--quick").in(what);
  c.flag("--all-data", o.all_data, "Of a run, read the data of all steps, as is done of a single checkpoint")
      .also({"--all"})
      .excludes("--quick")
      .excludes("--sample")
      .in(what);
  c.flag("--strict", o.strict,
         "Exit with 1 for warnings too: --fail-on warnings; with 2 if --include, --exclude, --key or --rename matches nothing")
      .in(what);
  add_fail_on(c, o.fail_on, what);
  Option& fail_on = *c.find("--fail-on");
  fail_on.choices.emplace_back("nan");
  fail_on.help += ", nan (NaN or inf in a tensor, which --stats finds)";
  c.option("--stats", o.stats, "GLOB", "Also print statistics of the tensors whose keys match GLOB (default: of all)")
      .offers(Offer::kKeys)
      .or_alone("*")
      .excludes("--quick")
      .excludes("--map")
      .in(what);
  c.option("--html", o.html, "FILE", "Also write a page with pictures to FILE: findings on the map of the files").writes().in("Output");
  add_threads(c, o.threads, "Reading");
  add_max_memory(c, o.max_memory, "Reading");
  c.option("--manifest", o.manifest, "FILE", "Write digests of all tensors, objects and files to FILE; - is stdout")
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
  c.flag("--subset", o.subset, "With --against: the checkpoint may lack keys of the manifest").needs("--against").in(manifest);
  c.flag("--no-files", o.no_files, "Do not digest whole files, which takes a second read").in(manifest);
  c.flag("--force", o.force, "Replace the file of --manifest").also({"--overwrite"}).needs("--manifest").in(manifest);
  add_key_flags(c, o.keys);
  add_allow_unmatched(c, o.keys);
  add_map(c, o.map);
  c.find("--config")->needs("--map");
  add_ranks(c, o.ranks, Gathers::kNo);
  add_common(c, context.common, true);
  c.arguments.front().for_each();
  c.arguments.front().help += ", or the run folder itself: all its steps";
  c.find("--pattern")->needed.clear();
  c.expand = [&c, &context, &o] { return take_steps(c.arguments.front(), o, context); };
  c.tally = [&o, &context](const std::vector<std::string>& documents, int& exit) {
    context.apart = context.apart && !o.of_run;
    return tally_text(documents,
                      {o.of_run ? "step" : "checkpoint", o.of_run && !o.reads_data() ? " (--all-data reads it)" : "", o.parts_of}, exit);
  };
}

}  // namespace

void add_verify(Command& c, Context& context) {
  auto options = std::make_shared<VerifyOptions>();
  c.details = kText;
  add_flags(c, context, *options);
  c.run = [options, &c, &context] {
    if (options->manifest == "-" && context.common.json)
      fail(ProblemId::usage, {}, "--manifest - with --json", "one of them: both write to stdout");
    VerifyReport report;
    report.source = options->source.path;
    report.of_run = options->of_run;
    if (options->source.shards_on_dim) report.opened_with = " --shards-on-dim " + std::to_string(*options->source.shards_on_dim);
    report.all_stats = !options->stats.empty();
    context.apart = context.apart && !options->of_run;  // then each is a line
    report.manifest = options->manifest;
    report.against = options->against;
    return report.around(context, [&] {
      check_flags(c, *options, context);
      return run(*options, context, report);
    });
  };
}

}  // namespace dcp::cmd
