// dcpctl verify: is the checkpoint whole? Reads all of it, or with --quick all but the data.
#include "app/ranked_run.h"
#include "line/commands.h"
#include "report/selection_report.h"
#include "report/verify_report.h"
#include "request/source.h"
#include "request/verify_request.h"

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
made from one, holds the same. Options that select keys and names decide what the manifest holds, as they do for consolidate.

  dcpctl verify step-1000
  dcpctl verify step-1000 --quick --fail-on unsafe
  dcpctl verify step-1000 --manifest model.json --model-only
  dcpctl verify model.safetensors --against model.json)";

int run(const VerifyOptions& o, Context& context, VerifyReport& report) {
  report.fail_on = o.fail_on;
  if (o.strict) report.fail_on.classes.push_back("warnings");
  report.left_out_by = o.quick ? "--quick" : "--sample " + o.sample;
  const VerifyRequest request = verify_request(o, context);
  verify(request, context, report.result,
         {.selected = [&](const Selection& s) { describe_unmatched(context, unmatched_rules(s)); },
          .mapped = [&](const MapAnswer& map) { describe(map, context); }});
  if (!context.leads()) return report.follow(end_ranks(context, 0));
  return end_ranks(context, report.done(context));
}

// Options that say which keys a manifest holds mean nothing without one.
void check_flags(const Command& command, const VerifyOptions& o) {
  if (!o.manifest.empty() || !o.against.empty()) return;
  for (const Option* given : command.given)
    if (given->group == "Which keys" || given->group == "Names")
      fail(ProblemId::usage, {}, given->name() + " without a manifest", "--manifest or --against beside it");
}

void add_flags(Command& c, Context& context, VerifyOptions& o) {
  const std::string what = "What is checked", manifest = "Manifest";
  add_source(c, context, o.source);
  c.flag("--quick", o.quick, "Skip tensor data: check metadata, item headers and small records only").in(what);
  c.option("--sample", o.sample, "PERCENT", "Check only this much of the data, always the same part").excludes("--quick").in(what);
  c.flag("--strict", o.strict,
         "Exit with 1 for warnings too: --fail-on warnings; with 2 if --include, --exclude, --key or --rename matches nothing")
      .in(what);
  add_fail_on(c, o.fail_on, what);
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
  c.flag("--force", o.force, "Replace the file of --manifest").needs("--manifest").in(manifest);
  add_key_flags(c, o.keys);
  add_allow_unmatched(c, o.keys);
  add_map(c, o.map);
  c.find("--config")->needs("--map");
  add_ranks(c, o.ranks, Gathers::kNo);
  add_common(c, context.common, true);
  c.arguments.front().for_each();
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
    report.manifest = options->manifest;
    report.against = options->against;
    return report.around(context, [&] {
      check_flags(c, *options);
      return run(*options, context, report);
    });
  };
}

}  // namespace dcp::cmd
